"""What is labelled: collections of pictures, texts and embeddings, where they are found, their encoders and cache."""
