"""What the service writes down of queues, alarms and the twin's accuracy, and how it is read again."""
