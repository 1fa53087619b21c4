/* Fiber switch for x86-64: keep what the calling convention says a function keeps, exchange stacks.
 *
 * It ends in a ret, not in "pop; jmp": the processor predicts that a ret goes where the last call came from. That call was made on the
 * other stack, but fibers that take turns at a barrier wait in the same functions, so the prediction is right; and with a jmp the call
 * of this function would stay in the predictor's stack and make every later ret wrong (27 ns a barrier instead of 16). */
#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
        .text
        .globl  emu_fiber_switch
        .type   emu_fiber_switch, @function
emu_fiber_switch:                       /* rdi: where to keep this context, rsi: the one to go to */
        .cfi_startproc
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .cfi_endproc
        .size   emu_fiber_switch, . - emu_fiber_switch

/* The first thing a new fiber runs; rbx holds run. Tells debuggers that nothing called it. */
        .globl  emu_fiber_start
        .type   emu_fiber_start, @function
emu_fiber_start:
        .cfi_startproc
        .cfi_undefined %rip
        callq   *%rbx
        hlt
        .cfi_endproc
        .size   emu_fiber_start, . - emu_fiber_start
#endif
#ifdef __linux__
        .section .note.GNU-stack, "", %progbits
#endif
