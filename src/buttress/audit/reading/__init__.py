"""From a file, a bundled set or a frame to checked columns, and which of their rows are held out."""
