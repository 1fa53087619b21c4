/* Fiber switch for aarch64: keep what the calling convention says a function keeps, exchange stacks. Ends in a ret for the reason
 * given in fiber_x86_64.S. */
#if defined(__aarch64__) && !defined(EMU_UCONTEXT)
        .text
        .globl  emu_fiber_switch
        .type   emu_fiber_switch, %function
emu_fiber_switch:                       /* x0: where to keep this context, x1: the one to go to */
        .cfi_startproc
        sub     sp, sp, #160
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        mov     sp, x1
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        ret
        .cfi_endproc
        .size   emu_fiber_switch, . - emu_fiber_switch

/* The first thing a new fiber runs; x19 holds run. Tells debuggers that nothing called it. */
        .globl  emu_fiber_start
        .type   emu_fiber_start, %function
emu_fiber_start:
        .cfi_startproc
        .cfi_undefined x30
        blr     x19
        brk     #1
        .cfi_endproc
        .size   emu_fiber_start, . - emu_fiber_start
#endif
        .section .note.GNU-stack, "", %progbits
