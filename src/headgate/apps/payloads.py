"""Importing this registers how the records of each application are made (``register_payloads``); it needs no Spark."""
