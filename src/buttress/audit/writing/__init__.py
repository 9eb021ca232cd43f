"""What comes out of an audit: two files, a table for the terminal, two curves and code to paste."""
