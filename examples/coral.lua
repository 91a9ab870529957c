-- Parameters of gray_scott.lua. Try feed=0.037 kill=0.06 for a labyrinth,
-- feed=0.025 kill=0.06 for spots that divide.
return {
  size = { 200, 400 },
  steps = 6000,
  every = 2000, -- steps per picture
  folder = "frames",
  feed = 0.0545,
  kill = 0.062,
  spots = 40, -- of the second substance, at the start
  seed = 2, -- says where
  colors = { 0x04121f, 0x0a4f6d, 0x2fa3a0, 0xf2d492, 0xf29559, 0xb23a48 },
}
