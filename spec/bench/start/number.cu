kernel void number(item<1> it, out<int, 1> numbers) { numbers(it[0]) = it[0]; }
