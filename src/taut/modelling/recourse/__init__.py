"""Variables that are chosen after the data of a round."""
