"""Does a test notice if a bound is turned? Small errors put into the code of proofs, gaps, intervals and verdicts."""
