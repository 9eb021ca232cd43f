"""What is raised for every file that is no sound model file, and for every model that no file can hold."""


class ModelFileError(ValueError):
    """A model file that is refused, or a model that cannot be saved; the message says which part and why."""
