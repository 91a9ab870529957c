return { size = 1000 }
