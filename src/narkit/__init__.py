"""narkit: neural algorithmic reasoning on CLRS-30, with Triplet Edge Attention as its flagship."""
