// Two network interfaces on AXI, joined by two links that lose every fourth message or so.  Each host finds its NI over
// AXI4-Lite and enables its link, sends COUNT datagrams to the other on an AXI4-Stream, and says what arrives.
// Ends with PASS, or with FAIL and an error.  `ni.v` and `ni.vh` are written by `lethe verilog`; see the Makefile.
`timescale 1ns / 1ps
`include "ni.vh"

// Without counters (ni.statistics = false) nobody tells how many Sends were repeated.
`ifdef LETHE_REGISTER_SNAPSHOT
`define COUNTED 1
`else
`define COUNTED 0
`define LETHE_REGISTER_SNAPSHOT 0
`define LETHE_REGISTER_SNAPSHOT_TAKE_SHIFT 0
`define LETHE_REGISTER_COUNTER_REPEATS 0
`endif

module pair_tb;
  parameter COUNT = 8;
  parameter MOST_CYCLES = 20000 + 20 * `LETHE_MTU;  // longer datagrams take longer
  parameter WAVES = 0;
  localparam LINK = `LETHE_LINK_O_DATA_BITS + 3;

  reg clk = 0, rst = 1;
  always #5 clk = ~clk;

  wire [LINK-1:0] a_out, b_out, a_in, b_in;
  wire a_done, b_done;
  wire [31:0] a_repeats, b_repeats, lost_ab, lost_ba;

  host #(.NODE(0), .COUNT(COUNT)) a (
    .clk(clk), .rst(rst), .link_i(a_in), .link_o(a_out), .done(a_done), .repeats(a_repeats));
  host #(.NODE(1), .COUNT(COUNT)) b (
    .clk(clk), .rst(rst), .link_i(b_in), .link_o(b_out), .done(b_done), .repeats(b_repeats));
  lossy #(.LINK(LINK), .SEED(32'h1234567)) ab (.clk(clk), .rst(rst), .i(a_out), .o(b_in), .lost(lost_ab));
  lossy #(.LINK(LINK), .SEED(32'h89abcde)) ba (.clk(clk), .rst(rst), .i(b_out), .o(a_in), .lost(lost_ba));

`ifdef LETHE_REGISTER_FLOW_SIZES
  // Flow has ports to bind and notices to take.
  initial begin
    $display("FAIL: the hosts of this example send datagrams, not messages of flow; leave [flow] out");
    $fatal;
  end
`endif

  initial if (WAVES != 0) begin
    $dumpfile("pair.vcd");
    $dumpvars(0, pair_tb);
  end

  integer cycle = 0;
  always @(posedge clk) begin
    cycle <= cycle + 1;
    rst <= cycle < 4;
    if (cycle > MOST_CYCLES) begin
      $display("FAIL: not done after %0d cycles", cycle);
      $fatal;
    end else if (a_done && b_done) begin
      if (lost_ab == 0 || lost_ba == 0 || (`COUNTED && a_repeats + b_repeats == 0)) begin
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
module host (clk, rst, link_i, link_o, done, repeats);
  parameter NODE = 0, COUNT = 1;
  localparam BITS = `LETHE_S_AXIS_SEND_TDATA_BITS, BYTES = BITS / 8;
  localparam USER = `LETHE_S_AXIS_SEND_TUSER_BITS, ADDRESS = `LETHE_S_AXIL_AWADDR_BITS;
  input clk, rst;
  input [BITS+2:0] link_i;  // {data, last, first, valid}
  output [BITS+2:0] link_o;
  output reg done;
  output reg [31:0] repeats;

  // Datagram n has its number in its first byte, and others by which it is known; the last has no bytes at all.
  function integer length_of(input integer n);
    length_of = n == COUNT - 1 ? 0 : 1 + (n * 13) % `LETHE_MTU;
  endfunction
  function integer beats_of(input integer n);
    beats_of = length_of(n) == 0 ? 1 : (length_of(n) + BYTES - 1) / BYTES;
  endfunction
  function [7:0] byte_of(input integer source, input integer n, input integer at);
    byte_of = at == 0 ? n : n * 31 + at * 7 + source * 101;
  endfunction
  function [BITS-1:0] beat_of(input integer source, input integer n, input integer at);
    integer i;
    begin
      beat_of = 0;
      for (i = 0; i < BYTES; i = i + 1)
        if (at * BYTES + i < length_of(n)) beat_of[8*i+:8] = byte_of(source, n, at * BYTES + i);
    end
  endfunction

  // Software, on AXI4-Lite, one transfer at a time: finds the NI, enables its link, and asks at the end how many Sends
  // were repeated.
  localparam [3:0] IDENTITY = 0, NUMBER = 1, READY = 2, ENABLE = 3, TRAFFIC = 4, IDLE = 5, SNAPSHOT = 6, REPEATS = 7,
                   OVER = 8;
  reg [3:0] step = IDENTITY;
  reg enabled = 0, busy = 0;
  reg awvalid = 0, wvalid = 0, arvalid = 0;
  wire awready, wready, bvalid, arready, rvalid, all_done;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  wire writes = step == ENABLE || step == SNAPSHOT;
  wire [31:0] wdata = step == ENABLE ? 1 << `LETHE_REGISTER_CONTROL_LINK_ENABLE_SHIFT
                                     : 1 << `LETHE_REGISTER_SNAPSHOT_TAKE_SHIFT;
  wire [ADDRESS-1:0] address =
    step == IDENTITY ? `LETHE_REGISTER_IDENTITY :
    step == NUMBER ? `LETHE_REGISTER_NODE :
    step == ENABLE ? `LETHE_REGISTER_CONTROL :
    step == SNAPSHOT ? `LETHE_REGISTER_SNAPSHOT :
    step == REPEATS ? `LETHE_REGISTER_COUNTER_REPEATS : `LETHE_REGISTER_STATUS;
  always @(posedge clk)
    if (rst) begin
      step <= IDENTITY;
      busy <= 0;
      enabled <= 0;
      {awvalid, wvalid, arvalid} <= 0;
      done <= 0;
      repeats <= 0;
    end else if (!busy) begin
      if (step == TRAFFIC) begin
        if (all_done) step <= IDLE;
      end else if (step == OVER) done <= 1;
      else begin
        busy <= 1;
        {awvalid, wvalid, arvalid} <= writes ? 3'b110 : 3'b001;
      end
    end else begin
      if (awready) awvalid <= 0;
      if (wready) wvalid <= 0;
      if (arready) arvalid <= 0;
      if (bvalid || rvalid) begin
        busy <= 0;
        if ((bvalid ? bresp : rresp) != 0) begin
          $display("FAIL: node %0d: a transfer to 0x%0h is refused", NODE, address);
          $fatal;
        end
        case (step)
          IDENTITY: begin
            step <= NUMBER;
            if (rdata != `LETHE_REGISTER_IDENTITY_IDENTITY_VALUE) begin
              $display("FAIL: node %0d: the identity is 0x%0h", NODE, rdata);
              $fatal;
            end
          end
          NUMBER: begin
            step <= READY;
            if (rdata != NODE) begin
              $display("FAIL: node %0d: the NI says that it is node %0d", NODE, rdata);
              $fatal;
            end
          end
          READY: if (rdata[`LETHE_REGISTER_STATUS_READY_SHIFT]) step <= ENABLE;
          ENABLE: begin
            step <= TRAFFIC;
            enabled <= 1;
            $display("node %0d: identity LETH, ready, link enabled", NODE);
          end
          // Idle: nothing is under way and nothing is remembered, so nothing can come a second time.
          IDLE: if (rdata[`LETHE_REGISTER_STATUS_IDLE_SHIFT]) step <= `COUNTED ? SNAPSHOT : OVER;
          SNAPSHOT: step <= REPEATS;
          REPEATS: begin
            step <= OVER;
            repeats <= rdata;
          end
          default: ;
        endcase
      end
    end

  // Sends: the beats of a datagram; destination, length and tag beside them.
  integer sending = 0, beat = 0;
  wire send_ready;
  wire send_valid = enabled && sending < COUNT;
  wire send_last = beat == beats_of(sending) - 1;
  wire [USER-1:0] length = length_of(sending), mode = `LETHE_MODE_EXACTLY_ONCE;
  wire [`LETHE_S_AXIS_SEND_TUSER_TAG_BITS-1:0] tag = sending;  // a tag may have fewer bits than a number
  always @(posedge clk)
    if (send_valid && send_ready) begin
      beat <= send_last ? 0 : beat + 1;
      if (send_last) sending <= sending + 1;
    end

  // Completions: one for each datagram, in any order.
  wire completion;
  wire [`LETHE_M_AXIS_COMPLETION_TDATA_BITS-1:0] ended;
  integer completed = 0;
  always @(posedge clk)
    if (completion) begin
      completed <= completed + 1;
      if (ended[`LETHE_M_AXIS_COMPLETION_TDATA_STATUS_SHIFT+:`LETHE_M_AXIS_COMPLETION_TDATA_STATUS_BITS]
          != `LETHE_STATUS_ACCEPTED) begin
        $display("FAIL: node %0d: a datagram was not accepted", NODE);
        $fatal;
      end
    end

  // Deliveries: datagrams in any order, beat by beat.  The host takes them in fits.
  reg [31:0] chance = 32'h2545F491 + NODE;
  reg [COUNT-1:0] seen = 0;
  integer received = 0, place = 0, number = 0;
  integer k, now, bytes;  // of this beat alone
  wire valid, last;
  wire [BITS-1:0] payload;
  wire [BYTES-1:0] keep;
  wire [`LETHE_M_AXIS_DELIVER_TID_BITS-1:0] source;
  wire [`LETHE_M_AXIS_DELIVER_TUSER_BITS-1:0] user;
  wire ready = chance[3];
  always @(posedge clk) begin
    chance <= {chance[30:0], chance[31] ^ chance[21] ^ chance[1] ^ chance[0]};
    if (valid && ready) begin
      now = place > 0 ? number : keep == 0 ? COUNT - 1 : payload[7:0];
      bytes = place;
      if (now >= COUNT || source != 1 - NODE || user[`LETHE_M_AXIS_DELIVER_TUSER_ABORTED_SHIFT]) begin
        $display("FAIL: node %0d: datagram %0d of node %0d was never sent", NODE, now, source);
        $fatal;
      end
      for (k = 0; k < BYTES; k = k + 1)
        if (keep[k]) begin
          if (payload[8*k+:8] != byte_of(1 - NODE, now, bytes)) begin
            $display("FAIL: node %0d: byte %0d of datagram %0d is wrong", NODE, bytes, now);
            $fatal;
          end
          bytes = bytes + 1;
        end
      number <= now;
      place <= last ? 0 : bytes;
      if (last) begin
        $display("node %0d: datagram %0d of node %0d, %0d bytes", NODE, now, source, bytes);
        if (bytes != length_of(now) || seen[now]) begin
          $display("FAIL: node %0d: datagram %0d %0s", NODE, now, seen[now] ? "came twice" : "has another length");
          $fatal;
        end
        seen[now] <= 1;
        received <= received + 1;
      end
    end
  end
  assign all_done = completed == COUNT && received == COUNT;

  wire [`LETHE_NODE_BITS-1:0] node = NODE;
  wire [`LETHE_S_AXIS_SEND_TDEST_BITS-1:0] destination = 1 - NODE;
  lethe_ni ni (
    // What only some configurations have is not used: urgent datagrams, and the ports for a service.
`ifdef LETHE_S_AXIS_SEND_CONTROL_TDATA_BITS
    .s_axis_send_control_tvalid(1'b0), .s_axis_send_control_tdata({BITS{1'b0}}), .s_axis_send_control_tlast(1'b0),
    .s_axis_send_control_tdest(destination), .s_axis_send_control_tuser({USER{1'b0}}),
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
`ifdef LETHE_M_AXIS_DELIVER_CONTROL1_TDATA_BITS
    .m_axis_deliver_control1_tready(1'b1),
`endif
`ifdef LETHE_M_AXIS_DELIVER_LOOP_TDATA_BITS
    .m_axis_deliver_loop_tready(1'b1),
`endif
    .clk(clk), .rst(rst), .node(node), .seed(NODE + 1), .irq(), .malformed(),
    .link_i_valid(link_i[0]), .link_i_first(link_i[1]), .link_i_last(link_i[2]), .link_i_data(link_i[BITS+2:3]),
    .link_o_valid(link_o[0]), .link_o_first(link_o[1]), .link_o_last(link_o[2]), .link_o_data(link_o[BITS+2:3]),
    .s_axil_awaddr(address), .s_axil_awprot(3'b0), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
    .s_axil_wdata(wdata), .s_axil_wstrb(4'hf), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
    .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(busy),
    .s_axil_araddr(address), .s_axil_arprot(3'b0), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(busy),
    .s_axis_send_tvalid(send_valid), .s_axis_send_tready(send_ready), .s_axis_send_tdata(beat_of(NODE, sending, beat)),
    .s_axis_send_tlast(send_last), .s_axis_send_tdest(destination),
    .s_axis_send_tuser(length << `LETHE_S_AXIS_SEND_TUSER_LENGTH_SHIFT | tag << `LETHE_S_AXIS_SEND_TUSER_TAG_SHIFT
                       | mode << `LETHE_S_AXIS_SEND_TUSER_MODE_SHIFT),
    .m_axis_deliver_tvalid(valid), .m_axis_deliver_tready(ready), .m_axis_deliver_tdata(payload),
    .m_axis_deliver_tkeep(keep), .m_axis_deliver_tlast(last), .m_axis_deliver_tid(source), .m_axis_deliver_tuser(user),
    .m_axis_completion_tvalid(completion), .m_axis_completion_tready(1'b1), .m_axis_completion_tdata(ended),
    .m_axis_completion_tlast(), .m_axis_completion_tuser());
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
