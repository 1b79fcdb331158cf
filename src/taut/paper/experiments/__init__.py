"""The experiments of the paper, from their data to judged claims."""
