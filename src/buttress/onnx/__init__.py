"""Models as ONNX graphs, for runtimes without Python."""

from buttress.onnx.export import to_onnx

__all__ = ["to_onnx"]
