return { size = 24 }
