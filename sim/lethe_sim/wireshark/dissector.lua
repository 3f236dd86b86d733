-- Use it:  wireshark -X lua_script:THIS_FILE CAPTURE
-- It is for one configuration, whose wire format the tables have; a capture of another format is not taken apart.

-- @tables

local lethe = Proto("lethe", "Lethe")

-- CRCs, reflected: a table of 256 for each.

local function xor_by_bits(a, b)
  local result, place = 0, 1
  while a > 0 or b > 0 do
    local x, y = a % 2, b % 2
    if x ~= y then result = result + place end
    a, b, place = (a - x) / 2, (b - y) / 2, place * 2
  end
  return result
end

local library = bit32 or bit
local function xor(a, b)
  -- Some libraries give signed numbers.
  return library and library.bxor(a, b) % 4294967296 or xor_by_bits(a, b)
end

local function crc_table(crc)
  local found = {}
  for byte = 0, 255 do
    local state = byte
    for _ = 1, 8 do
      local low = state % 2
      state = (state - low) / 2
      if low == 1 then state = xor(state, crc.polynomial) end
    end
    found[byte] = state
  end
  return found
end

CRC16.bytes, CRC32.bytes = crc_table(CRC16), crc_table(CRC32)

-- The CRC of bytes first … last of an array of them.
local function crc_of(crc, bytes, first, last)
  local ones = 2 ^ crc.width - 1
  local state = ones
  for i = first, last do
    local low = state % 256
    state = xor((state - low) / 256, crc.bytes[xor(low, bytes[i])])
  end
  return ones - state
end

-- Bits of an array of bytes, whose first has number 1; bit 0 is the lowest of the first byte.
local function bits_of(bytes, offset, width)
  local value, place = 0, 1
  local at, skipped = math.floor(offset / 8) + 1, offset % 8
  local left = width + skipped
  while left > 0 do
    value = value + (bytes[at] or 0) * place
    place, at, left = place * 256, at + 1, left - 8
  end
  return math.floor(value / 2 ^ skipped) % 2 ^ width
end

-- As a whole number where Lua tells them from others.
local function whole(value)
  return math.tointeger and math.tointeger(value) or value
end

-- Fields.

local fields, all = {}, {}

local function field(name, made)
  fields[name] = made
  all[#all + 1] = made
end

local function label_of(name)
  local text = name:gsub("_", " ")
  return text:sub(1, 1):upper() .. text:sub(2)
end

local CRC_STATUS = {[0] = "Bad", [1] = "Good", [2] = "Unverified"}
local BAD, GOOD, UNVERIFIED = 0, 1, 2
local codes = {kind = KINDS, mode = MODES, passage = PASSAGES, fate = FATES}

local function number_field(name, label, size, values, about)
  local make = size > 4 and ProtoField.uint64 or size > 2 and ProtoField.uint32
    or size > 1 and ProtoField.uint16 or ProtoField.uint8
  local base_used = (name == "format" or name:find("^crc")) and base.HEX or base.DEC
  field(name, make("lethe." .. name, label, base_used, values, nil, about))
end

for _, place in ipairs(HEADER) do
  if place.name ~= "detail" and place.name ~= "marks" then
    number_field(place.name, label_of(place.name), place.size, codes[place.name], place.about)
  end
end
number_field("detail", "Detail", 1)
for _, detail in pairs(DETAILS) do
  number_field(detail.name, detail.label, 1, detail.codes)
end
for _, mark in ipairs(MARKS) do
  field(mark.name, ProtoField.bool("lethe." .. mark.name, label_of(mark.name)))
end
for _, one in ipairs(SEND_FIELDS) do
  number_field(one.name, label_of(one.name), math.ceil(one.width / 8), codes[one.name])
end
for _, header in ipairs(PAYLOAD_HEADERS) do
  local function header_fields(list)
    for _, one in ipairs(list) do
      local name = header.name .. "." .. one.name
      if not fields[name] then
        number_field(name, label_of(one.name), math.ceil(one.width / 8), header.names[one.name])
      end
    end
  end
  header_fields(header.fields)
  for _, list in pairs(header.words) do header_fields(list) end
end
field("control", ProtoField.bool("lethe.control", "Control class"))
field("uid", ProtoField.string("lethe.uid", "UID"))
field("payload", ProtoField.bytes("lethe.payload", "Payload"))
field("header", ProtoField.none("lethe.header", "Header"))
number_field("crc", "CRC", 4)
number_field("crc.status", "CRC status", 1, CRC_STATUS)
field("response_in", ProtoField.framenum("lethe.response_in", "Response in", base.NONE, frametype.RESPONSE))
field("response_to", ProtoField.framenum("lethe.response_to", "Response to", base.NONE, frametype.REQUEST))
field("repeat_of", ProtoField.framenum("lethe.repeat_of", "Repeat of", base.NONE, frametype.RETRANS_PREV))
number_field("response_cycles", "Cycles to response", 4)
lethe.fields = all

local function expert_of(name, text, group, severity)
  return ProtoExpert.new("lethe." .. name, text, group, severity)
end
local bad_crc = expert_of("bad_crc", "The CRC is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local vanished = expert_of("vanished", "The message vanished on the link", expert.group.SEQUENCE, expert.severity.WARN)
local discarded = expert_of("discarded", "The message was discarded", expert.group.SEQUENCE, expert.severity.WARN)
local repeated = expert_of("repeated", "A repeat", expert.group.SEQUENCE, expert.severity.NOTE)
local other = expert_of(
  "other_format", "The wire format is not that of this dissector; make one from the configuration of the capture",
  expert.group.UNDECODED, expert.severity.ERROR)
local wrong_length = expert_of(
  "wrong_length", "Kind, length and number of flits disagree", expert.group.MALFORMED, expert.severity.WARN)
lethe.experts = {bad_crc, vanished, discarded, repeated, other, wrong_length}

-- Dissectors of payloads, by the class of their datagrams.
local by_class = DissectorTable.new("lethe.class", "Lethe class", ftypes.UINT8, base.DEC, lethe)

-- Which message answers which: filled as packets are seen first, and used from then on.

local latest   -- by UID and kind: the latest frame that passed its link
local waiting  -- by UID and kind: the frames that passed, and are not answered yet
local first    -- by link, UID and kind: the first frame
local ended    -- by link and UID: a Forget has been seen, so a Send is one of a new datagram
local related  -- by frame: what it answers, what answers it, what it repeats

function lethe.init()
  latest, waiting, first, ended, related = {}, {}, {}, {}, {}
end

local function relate(number, message)
  local found = related[number] or {}
  related[number] = found
  local uid, kind = message.uid, message.kind
  local place = message.link .. " " .. uid
  if kind == KIND.SEND and ended[place] then
    for _, one in pairs(KIND) do first[place .. " " .. one] = nil end
    ended[place] = nil
  elseif kind == KIND.FORGET then
    ended[place] = true
  end
  local earlier = first[place .. " " .. kind]
  if earlier and kind ~= KIND.FORGET and kind ~= KIND.BE then
    found.repeat_of = earlier
  else
    first[place .. " " .. kind] = earlier or number
  end
  if not message.passed then return end
  local asked = ANSWERS[kind]
  if asked then
    local key = uid .. " " .. asked
    local request = latest[key]
    if request then
      found.response_to, found.response_cycles = request.number, message.cycle - request.cycle
    end
    for _, one in ipairs(waiting[key] or {}) do related[one].response_in = number end
    waiting[key] = nil
  end
  local key = uid .. " " .. kind
  latest[key] = {number = number, cycle = message.cycle}
  waiting[key] = waiting[key] or {}
  table.insert(waiting[key], number)
end

-- Parts of a packet.

local function show_header(buffer, tree, values)
  local under = tree:add(lethe, buffer(0, HEADER_BYTES), "On its link")
  for _, place in ipairs(HEADER) do
    local range = buffer(place.at, place.size)
    if place.name == "detail" then
      local detail = DETAILS[values.fate]
      if detail then
        under:add_le(fields[detail.name], range)
      elseif values.detail > 0 then
        under:add_le(fields.detail, range)
      end
    elseif place.name == "marks" then
      for _, mark in ipairs(MARKS) do under:add(fields[mark.name], range, values.marked[mark.name]) end
    elseif place.name ~= "fate" or values.fate > 0 then
      under:add_le(fields[place.name], range)
    end
  end
  if values.passage ~= PASSED then under:add_proto_expert_info(vanished) end
  if DISCARDS[values.fate] then under:add_proto_expert_info(discarded, "The message was discarded: " .. values.told) end
end

-- What became of the message, in words.
local function fate_of(values)
  local told = FATES[values.fate] or ""
  local detail = DETAILS[values.fate]
  if not detail then return told end
  return told .. " " .. (detail.codes and detail.codes[values.detail] or detail.name .. " " .. values.detail)
end

local function show_fields(buffer, tree, at, bytes, list, prefix)
  local found = {}
  for _, one in ipairs(list) do
    local from, to = math.floor(one.offset / 8), math.floor((one.offset + one.width - 1) / 8)
    if one.width > 0 and at + to < buffer:len() then
      local value = whole(bits_of(bytes, one.offset, one.width))
      found[one.name] = value
      local made = value
      if one.width > 32 then
        made = UInt64.new(whole(value % 4294967296), whole(math.floor(value / 4294967296)))
      end
      tree:add(fields[prefix .. one.name], buffer(at + from, to - from + 1), made)
    elseif one.width == 0 then
      found[one.name] = 0
    end
  end
  return found
end

local function show_crc(buffer, tree, bytes, flits, whole_message)
  local size, at, told, wanted = #bytes, nil, nil, nil
  local short = flits == 1 and ONE_FLIT_CONTROL
  if short then
    at = size - 2
    wanted = crc_of(CRC16, bytes, 1, at)
    told = bits_of(bytes, 8 * at, 16)
  elseif flits > CRC_FLITS then
    at = size - CRC_FLITS * FLIT_BYTES
    wanted = crc_of(CRC32, bytes, 1, at)
    told = bits_of(bytes, 8 * at, 32)
    for i = at + 5, size do
      if bytes[i] ~= 0 then wanted = -1 end
    end
  end
  local status = UNVERIFIED
  if whole_message then status = told and told == wanted and GOOD or BAD end
  if at and whole_message then
    tree:add(fields.crc, buffer(HEADER_BYTES + at, short and 2 or 4), whole(told))
  end
  local item = tree:add(fields["crc.status"], buffer(HEADER_BYTES, size), status):set_generated()
  if status == BAD then item:add_proto_expert_info(bad_crc) end
  return status, at or size
end

local function expected_flits(found)
  if not DATA[found.kind] then return CONTROL_FLITS end
  if not found.length or found.length > MTU then return nil end
  return HEADER_FLITS + math.ceil(found.length / FLIT_BYTES) + CRC_FLITS
end

-- The payload: what its headers say, in words, where it begins behind them, and its end; nothing if it is too short.
local function show_payload(buffer, tree, bytes, found, crc_at)
  local from, told = HEADER_FLITS * FLIT_BYTES, ""
  local length = math.min(found.length or 0, math.max(0, crc_at - from))
  if length == 0 then return told end
  local under = tree:add(fields.payload, buffer(HEADER_BYTES + from, length))
  local at, class = 0, found.class or 0
  for _, header in ipairs(PAYLOAD_HEADERS) do
    if header.first <= class and class <= header.last then
      local size = header.bytes
      if at + size > length then return told end
      local part, start = {}, HEADER_BYTES + from + at
      for i = 1, size do part[i] = bytes[from + at + i] end
      local branch = under:add(lethe, buffer(start, size), "Header of " .. header.name)
      local got = show_fields(buffer, branch, start, part, header.fields, header.name .. ".")
      local first = header.fields[1].name
      local behind = show_fields(buffer, branch, start, part, header.words[got[first]] or {}, header.name .. ".")
      for name, value in pairs(behind) do got[name] = value end
      local text = header.told:gsub("{([%w_]+)}", function(name)
        return header.names[name] and header.names[name][got[name]] or tostring(got[name])
      end)
      if text ~= "" then told = told .. ": " .. text end
      at = at + size
    end
  end
  return told, from + at, from + length
end

function lethe.dissector(buffer, pinfo, root)
  if buffer:len() < HEADER_BYTES then return 0 end
  pinfo.cols.protocol = "Lethe"
  local values = {}
  for _, place in ipairs(HEADER) do
    local range = buffer(place.at, place.size)
    values[place.name] = place.size > 4 and whole(range:le_uint64():tonumber()) or range:le_uint()
  end
  values.told, values.marked = fate_of(values), {}
  for _, mark in ipairs(MARKS) do
    values.marked[mark.name] = math.floor(values.marks / mark.value) % 2 == 1
  end
  local tree = root:add(lethe, buffer(), "Lethe")
  show_header(buffer, tree, values)
  if values.version ~= VERSION or values.format ~= FORMAT or values.flit_bytes ~= FLIT_BYTES then
    pinfo.cols.info = "Another wire format"
    tree:add_proto_expert_info(other)
    return buffer:len()
  end
  local size = buffer:len() - HEADER_BYTES
  local bytes = {}
  for i = 1, size do bytes[i] = buffer(HEADER_BYTES + i - 1, 1):uint() end
  local became = PASSAGES[values.passage] or "?"
  local remark = values.passage ~= PASSED and (" [" .. became .. "]") or ""
  if DISCARDS[values.fate] then remark = remark .. " [" .. values.told .. "]" end
  if values.marked.headless then
    pinfo.cols.info = "Rest of a fragment, " .. values.flits .. " flits" .. remark
    return buffer:len()
  end
  local kind = whole(bits_of(bytes, COMMON[1].offset, COMMON[1].width))
  local list = DATA[kind] and SEND_FIELDS or COMMON
  local last = list[#list]
  local header_bytes = math.min(size, math.ceil((last.offset + last.width) / 8))
  local under = tree:add(fields.header, buffer(HEADER_BYTES, header_bytes))
  local found = show_fields(buffer, under, HEADER_BYTES, bytes, list, "")
  if not found.try then
    pinfo.cols.info = "Fragment of " .. values.flits .. " flits" .. remark
    return buffer:len()
  end
  if found.class and FIRST_CONTROL_CLASS then
    under:add(fields.control, buffer(HEADER_BYTES, header_bytes), found.class >= FIRST_CONTROL_CLASS):set_generated()
  end
  local owner = NAMED_BY_DESTINATION[kind] and found.destination or found.source
  local uid = string.format("%d:%d:%d:%d", owner, found.incarnation, found.slot, found.generation)
  tree:add(fields.uid, buffer(HEADER_BYTES, header_bytes), uid):set_generated()
  local whole_message = not values.marked.fragment and size == values.flits * FLIT_BYTES
  local status, crc_at = show_crc(buffer, tree, bytes, values.flits, whole_message)
  if whole_message and status == GOOD and expected_flits(found) ~= values.flits then
    tree:add_proto_expert_info(wrong_length)
  end
  local name = KINDS[kind] or ("kind " .. kind)
  pinfo.cols.src = "node" .. found.source
  pinfo.cols.dst = "node" .. found.destination
  local text = name .. " " .. uid
  if DATA[kind] then text = text .. ", " .. (found.length or 0) .. " bytes, class " .. (found.class or 0) end
  if values.marked.fragment then text = text .. " [fragment]" end
  if status == BAD then text = text .. " [bad CRC]" end
  if not pinfo.visited and whole_message and status == GOOD then
    relate(pinfo.number, {
      uid = uid, kind = kind, link = values.link, cycle = values.cycle, passed = values.passage == PASSED,
    })
  end
  local relation = related[pinfo.number] or {}
  local told, from, to = "", nil, nil
  if DATA[kind] then told, from, to = show_payload(buffer, tree, bytes, found, crc_at) end
  if status == GOOD then text = text .. told end
  if relation.repeat_of then text = text .. " [repeat]" end
  pinfo.cols.info = text .. remark
  local inner = from and from < to and by_class:get_dissector(found.class or 0)
  if inner then inner:call(buffer(HEADER_BYTES + from, to - from):tvb(), pinfo, root) end
  for _, way in ipairs({"response_to", "response_in", "repeat_of", "response_cycles"}) do
    if relation[way] then
      local item = tree:add(fields[way], buffer(0, 0), relation[way]):set_generated()
      if way == "repeat_of" then item:add_proto_expert_info(repeated) end
    end
  end
  return buffer:len()
end

DissectorTable.get("wtap_encap"):add((wtap or wtap_encaps).USER0, lethe)
