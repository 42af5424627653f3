"""requests of OpenAI's API -> the same answers as everywhere else, in the shape that its clients expect."""
