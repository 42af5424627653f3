"""A plug-in for Kumihimo: the methods `longest` and `measured`, the table `measures`, a reader of calendars."""
