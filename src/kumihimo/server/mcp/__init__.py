"""requests of the Model Context Protocol -> the same answers, evidence and documents as everywhere else."""
