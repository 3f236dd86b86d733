// The two cells of the ECP5 for which Yosys has no simulation model, as far as Yosys' mapping and `lethe.lib.memory` use
// them: clocks not inverted, chip selects low, both ports alike.  After Lattice's FPGA-TN-02204 (memory) and FPGA-TN-02205
// (sysDSP).  A name and a number between at-signs are so many ports; INIT and CONTENTS stand for 64 parameters
// (`gates.cells`).

module DP16KD (
    input @DIA:18@, input @ADA:14@, input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0, output @DOA:18@,
    input @DIB:18@, input @ADB:14@, input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0, output @DOB:18@
);
    parameter DATA_WIDTH_A = 18;
    parameter DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG";
    parameter REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC";
    parameter ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000";
    parameter CSDECODE_B = "0b000";
    parameter WRITEMODE_A = "NORMAL";
    parameter WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA";
    parameter CLKBMUX = "CLKB";
    parameter GSR = "ENABLED";
@INIT@

    // 1,024 words of 18 bits; a word of 36 bits is two, the even one low; narrow ones are parts of a byte of 9 bits, which
    // address bit 3 chooses.  Of wide words, address bits 1:0 (3:0) enable bytes.
    localparam WIDE_A = DATA_WIDTH_A == 36;
    localparam WIDE_B = DATA_WIDTH_B == 36;
    localparam NARROW_A = DATA_WIDTH_A < 18;
    localparam NARROW_B = DATA_WIDTH_B < 18;
    localparam KEPT_A = REGMODE_A == "OUTREG";
    localparam KEPT_B = REGMODE_B == "OUTREG";
    reg [17:0] memory [0:1023];
    wire [20479:0] contents = {@CONTENTS@};
    integer i;

    function known;
        input integer width;
        known = width == 36 || width == 18 || width == 9 || width == 4 || width == 2 || width == 1;
    endfunction

    initial begin
        if (!known(DATA_WIDTH_A) || !known(DATA_WIDTH_B) || ((WIDE_A || WIDE_B) && KEPT_A != KEPT_B)
                || (!KEPT_A && REGMODE_A != "NOREG") || (!KEPT_B && REGMODE_B != "NOREG")
                || CLKAMUX != "CLKA" || CLKBMUX != "CLKB") begin
            $display("DP16KD: a mode that this model does not have");
            $finish;
        end
    end
    initial for (i = 0; i < 1024; i = i + 1) memory[i] = contents[20 * i +: 18];

    wire [13:0] address_a = {@ADA:14@};
    wire [13:0] address_b = {@ADB:14@};
    wire [17:0] pins_a = {@DIA:18@};
    wire [17:0] pins_b = {@DIB:18@};
    wire write_a = CEA & WEA;
    wire write_b = CEB & WEB & !WIDE_A;
    wire [9:0] even_a = WIDE_A ? {address_a[13:5], 1'b0} : address_a[13:4];
    wire [9:0] even_b = WIDE_B ? {address_b[13:5], 1'b0} : address_b[13:4];
    wire [9:0] odd_a = {address_a[13:5], 1'b1};
    wire [9:0] odd_b = {address_b[13:5], 1'b1};

    // Where a narrow word begins.
    wire [3:0] place_a = NARROW_A ? (address_a[3] ? 9 : 0) + (DATA_WIDTH_A == 9 ? 0 : address_a[2:0]) : 0;
    wire [3:0] place_b = NARROW_B ? (address_b[3] ? 9 : 0) + (DATA_WIDTH_B == 9 ? 0 : address_b[2:0]) : 0;
    wire [17:0] given_a = pins_a << place_a;
    wire [17:0] given_b = pins_b << place_b;

    function [17:0] enabled;
        input integer width;
        input [3:0] place;
        input [1:0] bytes;
        enabled = width < 18 ? ((18'd1 << width) - 18'd1) << place : {{9{bytes[1]}}, {9{bytes[0]}}};
    endfunction
    wire [17:0] mask_a = enabled(DATA_WIDTH_A, place_a, address_a[1:0]);
    wire [17:0] mask_b = enabled(DATA_WIDTH_B, place_b, address_b[1:0]);
    wire [17:0] mask_c = enabled(DATA_WIDTH_A, 4'd0, address_a[3:2]);

    // Bits read by one port while the other writes them are not defined, and so are wrong here.
    // Bytes that are not enabled are not written.
    wire [17:0] none = 18'd0;
    wire [17:0] clash_b = !write_a ? none : even_b == even_a ? mask_a : WIDE_A && even_b == odd_a ? mask_c : none;
    wire [17:0] clash_c = !write_a ? none : odd_b == even_a ? mask_a : WIDE_A && odd_b == odd_a ? mask_c : none;
    wire [17:0] clash_a = write_b && even_a == even_b ? mask_b : none;
    wire [17:0] old_a = (memory[even_a] ^ clash_a) >> place_a;
    wire [17:0] old_b = (memory[even_b] ^ clash_b) >> place_b;
    wire [17:0] old_c = memory[odd_b] ^ clash_c;

    function [17:0] merged;
        input [17:0] old;
        input [17:0] given;
        input [17:0] mask;
        merged = (old & ~mask) | (given & mask);
    endfunction

    reg [17:0] shown_a = 0;
    reg [17:0] shown_b = 0;
    reg [17:0] shown_c = 0;
    reg [17:0] kept_a = 0;
    reg [17:0] kept_b = 0;
    reg [17:0] kept_c = 0;

    always @(posedge CLKA) begin
        if (write_a) memory[even_a] <= merged(memory[even_a], given_a, mask_a);
        if (write_a && WIDE_A) memory[odd_a] <= merged(memory[odd_a], pins_b, mask_c);
        if (RSTA) shown_a <= 0;
        else if (CEA && (!write_a || WRITEMODE_A == "READBEFOREWRITE")) shown_a <= old_a;
        else if (CEA && WRITEMODE_A == "WRITETHROUGH") shown_a <= merged(old_a, pins_a, mask_a >> place_a);
        if (RSTA) kept_a <= 0;
        else if (OCEA) kept_a <= shown_a;
    end

    always @(posedge CLKB) begin
        if (write_b) memory[even_b] <= merged(memory[even_b], given_b, mask_b);
        if (RSTB) shown_b <= 0;
        else if (CEB && (!write_b || WRITEMODE_B == "READBEFOREWRITE")) shown_b <= old_b;
        else if (CEB && WRITEMODE_B == "WRITETHROUGH") shown_b <= merged(old_b, pins_b, mask_b >> place_b);
        if (RSTB) shown_c <= 0;
        else if (CEB) shown_c <= old_c;
        if (RSTB) kept_b <= 0;
        else if (OCEB) kept_b <= shown_b;
        if (RSTB) kept_c <= 0;
        else if (OCEB) kept_c <= shown_c;
    end

    // Of a word of 36 bits the low half is on A's pins, the high half on B's.
    wire [17:0] now_a = KEPT_A ? kept_a : shown_a;
    wire [17:0] now_b = KEPT_B ? kept_b : shown_b;
    wire [17:0] now_c = KEPT_B ? kept_c : shown_c;
    assign {@DOA:18@} = WIDE_B ? now_b : now_a;
    assign {@DOB:18@} = WIDE_B ? now_c : now_b;
endmodule

module MULT18X18D (
    input @A:18@, input @B:18@, input @C:18@, input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CLK3, CLK2, CLK1, CLK0, CE3, CE2, CE1, CE0, RST3, RST2, RST1, RST0,
    output @P:36@
);
    parameter REG_INPUTA_CLK = "NONE";
    parameter REG_INPUTB_CLK = "NONE";
    parameter REG_INPUTC_CLK = "NONE";
    parameter REG_PIPELINE_CLK = "NONE";
    parameter REG_OUTPUT_CLK = "NONE";
    wire [17:0] a = {@A:18@};
    wire [17:0] b = {@B:18@};
    wire [35:0] wide_a = {{18{SIGNEDA & a[17]}}, a};
    wire [35:0] wide_b = {{18{SIGNEDB & b[17]}}, b};
    assign {@P:36@} = wide_a * wide_b;
endmodule
