"""The encode-process-decode networks: encoders, processors, decoders, and the functions that train and score them."""
