"""Long fits that survive the machine: what their runs keep in a folder, and how a fit takes it up again."""
