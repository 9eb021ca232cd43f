"""Published experiments, rerun: each module prints the paper's numbers beside ours."""
