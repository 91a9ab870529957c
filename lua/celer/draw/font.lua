--- font.lua -- letters of 5 x 7 pixels, for text in pictures.
local M = { WIDTH = 5, HEIGHT = 7 }

-- From the space to the tilde: seven rows each, from the top. A row is a digit of base 32,
-- whose highest bit is the pixel on the left.
local rows = "0000000" .. "4444004" .. "aaa0000" .. "aavavaa" .. "4fke5u4" .. "op248j3"
  .. "cik8lid" .. "c480000" .. "2488842" .. "8422248" .. "04lel40" .. "044v440" .. "0000c48"
  .. "000v000" .. "00000cc" .. "01248g0"
  .. "ehjlphe4c4444eeh1248vv2421he26aiv22vgu11he68guhhev124888ehhehheehhf12c"
  .. "0cc0cc0" .. "0cc0c48" .. "248g842" .. "00v0v00" .. "8421248" .. "eh12404" .. "eh1dlle"
  .. "ehhvhhhuhhuhhuehggghesihhhisvgguggvvgguggg" .. "ehgnhhfhhhvhhhe44444e72222ic"
  .. "hikokihggggggvhrllhhhhhpljhhehhhhheuhhuggg" .. "ehhhliduhhukihfgge11uv444444"
  .. "hhhhhhehhhhha4hhhlllahha4ahhhhha444v1248gv"
  .. "e88888e" .. "0g84210" .. "e22222e" .. "4ah0000" .. "000000v" .. "8420000"
  .. "00e1fhfggmphhu00egghe11djhhf00ehvge698s888" .. "0fhhf1eggmphhh40c444e20622ic"
  .. "ggikokic44444e00qllhh00mphhh00ehhhe00uhugg" .. "00djf1100mpggg00ege1u88s8896"
  .. "00hhhjd00hhha400hhlla00ha4ah00hhf1e00v248v"
  .. "2448442" .. "4444444" .. "8442448" .. "0008l20"

local UNKNOWN = "vhhhhhv"

--- How many letters a text has: bytes that continue one of UTF-8 are none.
---@param text string
---@return integer
function M.count(text) return #(text:gsub("[\128-\191]", "")) end

--- Calls f(x, y) for each pixel of a text, from its upper left corner on. A letter that is
--- not in ASCII is a frame.
---@param text string
---@param f fun(x: integer, y: integer)
function M.each(text, f)
  local left = 0
  for letter in text:gmatch "[^\128-\191][\128-\191]*" do
    local code = letter:byte() - 32
    local shape = code >= 0 and code < 95 and rows:sub(7 * code + 1, 7 * code + 7) or UNKNOWN
    for y = 0, 6 do
      local row = tonumber(shape:sub(y + 1, y + 1), 32)
      for x = 0, 4 do
        if bit.band(row, bit.lshift(1, 4 - x)) ~= 0 then f(left + x, y) end
      end
    end
    left = left + M.WIDTH + 1
  end
end

return M
