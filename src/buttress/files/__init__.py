"""The one binary format of this package, for models and for checkpoints: data only, checksummed, never code."""
