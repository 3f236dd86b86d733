// Two network interfaces over two links that lose every fourth message or so.  Each host sends COUNT datagrams to the
// other, and checks that each arrives once, with every byte, and that each completion says ACCEPTED.
// Ends with PASS, or with FAIL and an error.  `ni.v` and `ni.vh` are written by `lethe verilog`; see the Makefile.
`timescale 1ns / 1ps
`include "ni.vh"

// Without counters (ni.statistics = false) nobody tells how many Sends were repeated.
`ifdef LETHE_COUNTER_DATA_BITS
`define COUNTED 1
`else
`define COUNTED 0
`endif

module pair_tb;
  parameter COUNT = 100;
  parameter MOST_CYCLES = 20000;
  localparam LINK = `LETHE_LINK_O_DATA_BITS + 3;

  reg clk = 0, rst = 1;
  always #5 clk = ~clk;

  wire [LINK-1:0] a_out, b_out, a_in, b_in;
  wire a_done, b_done, a_idle, b_idle;
  wire [31:0] a_repeats, b_repeats, lost_ab, lost_ba;

  host #(.NODE(0), .COUNT(COUNT)) a (
    .clk(clk), .rst(rst), .link_i(a_in), .link_o(a_out), .done(a_done), .idle(a_idle), .repeats(a_repeats));
  host #(.NODE(1), .COUNT(COUNT)) b (
    .clk(clk), .rst(rst), .link_i(b_in), .link_o(b_out), .done(b_done), .idle(b_idle), .repeats(b_repeats));
  lossy #(.LINK(LINK), .SEED(32'h1234567)) ab (.clk(clk), .rst(rst), .i(a_out), .o(b_in), .lost(lost_ab));
  lossy #(.LINK(LINK), .SEED(32'h89abcde)) ba (.clk(clk), .rst(rst), .i(b_out), .o(a_in), .lost(lost_ba));

  // Idle: nothing is under way and nothing is remembered, so nothing can come a second time.
  integer cycle = 0;
  always @(posedge clk) begin
    cycle <= cycle + 1;
    rst <= cycle < 4;
    if (cycle > MOST_CYCLES) begin
      $display("FAIL: not done after %0d cycles", cycle);
      $fatal;
    end else if (a_done && b_done && a_idle && b_idle) begin
      if (lost_ab == 0 || lost_ba == 0 || (`COUNTED && (a_repeats == 0 || b_repeats == 0))) begin
        $display("FAIL: nothing was lost, so nothing was shown");
        $fatal;
      end
      $write("PASS: %0d datagrams each way in %0d cycles; %0d messages lost", COUNT, cycle, lost_ab + lost_ba);
      if (`COUNTED) $display(", %0d Sends repeated", a_repeats + b_repeats);
      else $display(", repeats are not counted");
      $finish;
    end
  end
endmodule

// A node: a network interface, and a host that sends and checks.
module host (clk, rst, link_i, link_o, done, idle, repeats);
  parameter NODE = 0, COUNT = 1;
  localparam BITS = `LETHE_LINK_O_DATA_BITS, BYTES = BITS / 8;
  input clk, rst;
  input [BITS+2:0] link_i;  // {data, last, first, valid}
  output [BITS+2:0] link_o;
  output done, idle;
  output [31:0] repeats;

  // Datagram n has its number in its first four bytes, and others by which it is known.
  function integer length_of(input integer n);
    length_of = 4 + (n * 13) % (`LETHE_MTU - 3);
  endfunction
  function [BITS-1:0] flit_of(input integer source, input integer n, input integer at);
    integer i, k;
    reg [31:0] number;
    begin
      number = n;
      flit_of = 0;
      for (i = 0; i < BYTES; i = i + 1) begin
        k = at * BYTES + i;
        if (k < 4) flit_of[8*i+:8] = number[8*k+:8];
        else if (k < length_of(n)) flit_of[8*i+:8] = n * 31 + k * 7 + source * 101;
      end
    end
  endfunction
  function integer flits_of(input integer n);
    flits_of = (length_of(n) + BYTES - 1) / BYTES;
  endfunction

  // Sends: a record, then its flits.
  integer sending = 0, beat = 0;
  reg in_payload = 0;
  wire record_ready, data_ready;
  wire record_valid = !rst && !in_payload && sending < COUNT;
  always @(posedge clk) begin
    if (rst) begin
      sending <= 0;
      in_payload <= 0;
    end else if (record_valid && record_ready) begin
      in_payload <= 1;
      beat <= 0;
    end else if (in_payload && data_ready) begin
      beat <= beat + 1;
      if (beat == flits_of(sending) - 1) begin
        in_payload <= 0;
        sending <= sending + 1;
      end
    end
  end

  // Completions: one for each datagram, in any order.
  wire completion;
  wire [`LETHE_COMPLETION_STATUS_BITS-1:0] status;
  integer completed = 0;
  always @(posedge clk)
    if (!rst && completion) begin
      completed <= completed + 1;
      if (status != `LETHE_STATUS_ACCEPTED) begin
        $display("FAIL: node %0d: a datagram ended with status %0d", NODE, status);
        $fatal;
      end
    end

  // Deliveries: a record, then its flits, in any order of the datagrams.  The host takes them in fits.
  reg [31:0] chance = 32'h2545F491 + NODE;
  reg [COUNT-1:0] seen = 0;
  reg receiving = 0;
  integer received = 0, number = 0, place = 0, length = 0;
  wire record, data, data_last;
  wire [`LETHE_DELIVER_LENGTH_BITS-1:0] record_length;
  wire [`LETHE_DELIVER_SOURCE_BITS-1:0] record_source;
  wire [BITS-1:0] payload;
  wire take_record = !receiving && chance[3], take_data = receiving && chance[7];
  wire [31:0] current = place == 0 ? payload[15:0] : number;
  always @(posedge clk) begin
    chance <= {chance[30:0], chance[31] ^ chance[21] ^ chance[1] ^ chance[0]};
    if (rst) receiving <= 0;
    else if (record && take_record) begin
      receiving <= 1;
      length <= record_length;
      place <= 0;
      if (record_source != 1 - NODE) begin
        $display("FAIL: node %0d: a datagram says it is from node %0d", NODE, record_source);
        $fatal;
      end
    end else if (data && take_data) begin
      number <= current;
      place <= place + 1;
      if (current >= COUNT || length != length_of(current)) begin
        $display("FAIL: node %0d: datagram %0d of %0d bytes was never sent", NODE, current, length);
        $fatal;
      end
      if (payload !== flit_of(1 - NODE, current, place) || data_last != (place == flits_of(current) - 1)) begin
        $display("FAIL: node %0d: flit %0d of datagram %0d is wrong", NODE, place, current);
        $fatal;
      end
      if (data_last) begin
        if (seen[current]) begin
          $display("FAIL: node %0d: datagram %0d came twice", NODE, current);
          $fatal;
        end
        seen[current] <= 1;
        received <= received + 1;
        receiving <= 0;
      end
    end
  end
  assign done = completed == COUNT && received == COUNT;

  wire [`LETHE_NODE_BITS-1:0] node = NODE;
  wire [`LETHE_INCARNATION_BITS-1:0] incarnation = 1;  // 0 is none
  wire [`LETHE_SEND_DESTINATION_BITS-1:0] destination = 1 - NODE;
  wire [`LETHE_SEND_LENGTH_BITS-1:0] send_length = length_of(sending);
  wire [`LETHE_SEND_MODE_BITS-1:0] mode = `LETHE_MODE_EXACTLY_ONCE;
  wire [`LETHE_SEND_TAG_BITS-1:0] tag = sending;
`ifdef LETHE_COUNTER_DATA_BITS
  wire [`LETHE_COUNTER_ADDRESS_BITS-1:0] counter = `LETHE_COUNTER_REPEATS;
`else
  assign repeats = 0;
`endif

  lethe_ni ni (
    .clk(clk), .rst(rst),
    .node(node), .seed(NODE + 1), .incarnation(incarnation),
    .node_reset(1'b0), .link_enable(1'b1), .quiesce(1'b0), .idle(idle),
    .link_i_valid(link_i[0]), .link_i_first(link_i[1]), .link_i_last(link_i[2]), .link_i_data(link_i[BITS+2:3]),
    .link_o_valid(link_o[0]), .link_o_first(link_o[1]), .link_o_last(link_o[2]), .link_o_data(link_o[BITS+2:3]),
    .send_valid(record_valid), .send_ready(record_ready), .send_destination(destination), .send_length(send_length),
    .send_cls({`LETHE_SEND_CLS_BITS{1'b0}}), .send_mode(mode), .send_deadline({`LETHE_SEND_DEADLINE_BITS{1'b0}}),
    .send_retry_limit({`LETHE_SEND_RETRY_LIMIT_BITS{1'b0}}), .send_tag(tag),
    .send_expect({`LETHE_SEND_EXPECT_BITS{1'b0}}), .send_data_valid(in_payload), .send_data_ready(data_ready),
    .send_data_payload(flit_of(NODE, sending, beat)),
    .completion_valid(completion), .completion_ready(1'b1), .completion_status(status),
    .deliver_valid(record), .deliver_ready(take_record), .deliver_length(record_length), .deliver_source(record_source),
    .deliver_data_valid(data), .deliver_data_ready(take_data), .deliver_data_data(payload),
    .deliver_data_last(data_last),
    .cancel_valid(1'b0), .cancel_slot({`LETHE_CANCEL_SLOT_BITS{1'b0}}),
`ifdef LETHE_COUNTER_DATA_BITS
    .counter_address(counter), .counter_data(repeats),
`endif
    // What only some configurations have is not used: urgent datagrams, and the ports for a service.
`ifdef LETHE_SEND_CONTROL_VALID_BITS
    .send_control_valid(1'b0), .send_control_destination(destination), .send_control_length(send_length),
    .send_control_cls({`LETHE_SEND_CLS_BITS{1'b0}}), .send_control_mode(mode),
    .send_control_deadline({`LETHE_SEND_DEADLINE_BITS{1'b0}}),
    .send_control_retry_limit({`LETHE_SEND_RETRY_LIMIT_BITS{1'b0}}), .send_control_tag(tag),
    .send_control_expect({`LETHE_SEND_EXPECT_BITS{1'b0}}), .send_control_data_valid(1'b0),
    .send_control_data_payload({BITS{1'b0}}),
`endif
`ifdef LETHE_DELIVER_CONTROL1_VALID_BITS
    .deliver_control1_ready(1'b1), .deliver_control1_data_ready(1'b1),
`endif
`ifdef LETHE_MERGE_MASK_BITS
    .merge_word({`LETHE_MERGE_MASK_BITS{1'b0}}), .merge_mask({`LETHE_MERGE_MASK_BITS{1'b0}}),
`endif
`ifdef LETHE_REFUSAL_BITS
    .refusal({`LETHE_REFUSAL_BITS{1'b0}}),
`endif
`ifdef LETHE_SWEEP_VALID_BITS
    .sweep_valid(1'b0), .sweep_source(node),
`endif
    .cancel_generation({`LETHE_CANCEL_GENERATION_BITS{1'b0}}));
endmodule

// A link that loses about every fourth message, whole.
module lossy (clk, rst, i, o, lost);
  parameter LINK = 67;
  parameter [31:0] SEED = 1;
  input clk, rst;
  input [LINK-1:0] i;  // {data, last, first, valid}
  output [LINK-1:0] o;
  output reg [31:0] lost;

  reg [31:0] chance = SEED;
  reg losing = 0;
  wire head = i[0] && i[1];
  wire drop = head ? chance[1:0] == 0 : losing;
  assign o = drop ? 0 : i;
  initial lost = 0;
  always @(posedge clk) begin
    chance <= {chance[30:0], chance[31] ^ chance[21] ^ chance[1] ^ chance[0]};
    if (head) losing <= drop;
    if (!rst && head && drop) lost <= lost + 1;
  end
endmodule
