"""web pages and files of remote stores -> a mirror folder, which is read like any other."""
