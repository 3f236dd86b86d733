-- As much of Wireshark's interface for Lua as the dissector uses.  It keeps what a dissector adds to a packet.

local kept
local function keep(name, value) kept[#kept + 1] = {name, value} end

local Range = {}
Range.__index = Range
local function range_of(bytes, at, size)
  size = size or #bytes - at
  assert(at >= 0 and size >= 0 and at + size <= #bytes, "Range is out of bounds")
  return setmetatable({bytes = bytes, at = at, size = size}, Range)
end
function Range:number(little)
  local value = 0
  for i = 1, self.size do
    local byte = self.bytes[self.at + (little and self.size + 1 - i or i)]
    value = value * 256 + byte
  end
  return value
end
function Range:uint() assert(self.size <= 4) return self:number(false) end
function Range:le_uint() assert(self.size <= 4) return self:number(true) end
function Range:le_uint64()
  assert(self.size <= 8)
  local value = self:number(true)
  return {tonumber = function() return value end}
end
local function buffer_of(bytes)
  local buffer = {bytes = bytes}
  function buffer:len() return #bytes end
  return setmetatable(buffer, {__call = function(_, at, size) return range_of(bytes, at or 0, size) end})
end
function Range:tvb()
  local part = {}
  for i = 1, self.size do part[i] = self.bytes[self.at + i] end
  return buffer_of(part)
end

local Tree = {}
Tree.__index = Tree
local function show(field, range, value)
  if field.name and field.type then
    assert(getmetatable(range) == Range, field.name)
    if value == nil then value = field.type == "bytes" and range.size or range:number(field.little) end
    if field.type == "uint" then assert(value == math.floor(value) and value >= 0, field.name) end
    keep(field.name, value)
  end
  return setmetatable({}, Tree)
end
function Tree:add(field, range, value) return show(field, range, value) end
function Tree:add_le(field, range) return show(field, range, range:number(true)) end
function Tree:set_generated() return self end
function Tree:add_proto_expert_info(info) keep(info.name, 1) end

local named = {}
local function make(kind)
  return function(name, label)
    assert(not named[name], "two fields " .. name)
    assert(label, "no label of " .. name)
    named[name] = true
    return {name = name, type = kind}
  end
end
ProtoField = {
  uint8 = make("uint"), uint16 = make("uint"), uint32 = make("uint"), uint64 = make("uint"), bool = make("bool"),
  string = make("string"), bytes = make("bytes"), none = make("none"), framenum = make("uint"),
}
ProtoExpert = {new = function(name) assert(not named[name]) named[name] = true return {name = name} end}
function Proto(name, about) return {about = about} end
local function names() return setmetatable({}, {__index = function(_, name) return name end}) end
base, ftypes, frametype, wtap = names(), names(), names(), names()
expert = {group = names(), severity = names()}
UInt64 = {new = function(low, high) return low + high * 4294967296 end}
local tables = {}
DissectorTable = {
  new = function(name)
    local found = {entries = {}}
    function found:get_dissector(number) return self.entries[number] end
    tables[name] = found
    return found
  end,
  get = function(name)
    return {add = function(_, key, proto) tables[name] = {key = key, proto = proto} end}
  end,
}

local other
-- A dissector for the payloads of a class.
function other_for(class)
  tables["lethe.class"].entries[class] = {call = function(_, buffer) other = buffer:len() end}
end

function begin() tables.wtap_encap.proto.init() end

-- What the dissector adds to a packet of some bytes: (name, value) in order, then the columns.
function dissect(number, visited, bytes)
  kept, other = {}, nil
  local pinfo = {number = number, visited = visited, cols = {}}
  assert(tables.wtap_encap.key == "USER0")
  tables.wtap_encap.proto.dissector(buffer_of(bytes), pinfo, setmetatable({}, Tree))
  return kept, pinfo.cols, other
end
