"""The encode-process-decode networks: encoders, processors, decoders, and what trains and scores them."""
