"""Review in the browser: from suspicious rows to corrections, one decision at a time, each of them kept."""
