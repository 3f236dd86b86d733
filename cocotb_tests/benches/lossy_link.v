// Loses a quarter of the worms, and flips one bit in 1,024 of those it keeps; within the cycle.
module lossy_link(
  clk, rst, i_valid, i_first, i_last, i_data, o_valid, o_first, o_last, o_data, lost, flipped
);
  parameter BITS = 64;
  parameter SEED = 1;
  input clk, rst, i_valid, i_first, i_last;
  input [BITS-1:0] i_data;
  output o_valid, o_first, o_last;
  output [BITS-1:0] o_data;
  output [31:0] lost, flipped;

  reg [31:0] draw, lost, flipped;
  reg losing;
  wire loses = i_first ? draw[7:0] < 64 : losing;
  wire flips = draw[31:20] % (1024 / BITS) == 0;
  assign o_valid = i_valid & ~loses;
  assign o_first = i_first & ~loses;
  assign o_last = i_last & ~loses;
  assign o_data = loses ? {BITS{1'b0}} : flips ? i_data ^ ({{(BITS-1){1'b0}}, 1'b1} << draw[18:12] % BITS) : i_data;

  wire [31:0] x = draw ^ draw << 13;
  wire [31:0] y = x ^ x >> 17;
  always @(posedge clk)
    if (rst) begin
      draw <= SEED;
      losing <= 0;
      lost <= 0;
      flipped <= 0;
    end else begin
      draw <= y ^ y << 5;
      if (i_valid) begin
        losing <= loses;
        lost <= lost + (i_first & loses);
        flipped <= flipped + (flips & ~loses);
      end
    end
endmodule
