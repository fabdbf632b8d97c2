"""Networks without torch: weights are read as arrays, made a graph, and run by ONNX Runtime."""
