"""What bytes look like, whatever their name says."""
