"""Tables where they are: frames, files and databases, read as columns, within the time a fit has."""
