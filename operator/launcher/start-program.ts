/**
 * A static program that starts another one in a session of its own, with the signals that a shell takes away: a shell
 * without a terminal starts a background program with SIGINT and SIGQUIT ignored, which every program below it
 * inherits, and busybox has no program that undoes that.
 *
 * `start PATH [ARGUMENT]…` becomes that program: setsid(2), sigaction(2) to SIG_DFL for both, execve(2). It exits with
 * 127 if there is no such file, and with 126 if it cannot be run.
 */
const MACHINES = [
  /*
   * mov rcx, [rsp]; lea r12, [rsp+16]; mov r13, [r12]; lea r14, [r12+rcx*8]   argv[1], its path, the environment
   * xor eax, eax; push rax; push rax; push rax; push rax                      a sigaction of zeros
   * mov al, 112; syscall                                                      setsid
   * mov edi, 2; mov rsi, rsp; xor edx, edx; mov r10d, 8; mov eax, 13; syscall rt_sigaction of SIGINT
   * mov edi, 3; mov eax, 13; syscall                                          and of SIGQUIT
   * mov rdi, r13; mov rsi, r12; mov rdx, r14; mov eax, 59; syscall            execve
   * mov edi, 126; cmp eax, -2; jne 1f; inc edi; 1: mov eax, 60; syscall       exit
   */
  {
    uname: "x86_64",
    elf: 0x3e,
    code: "488b0c244c8d6424104d8b2c244d8d34cc31c050505050b0700f05bf020000004889e631d241ba08000000b80d0000000f05bf03000000b80d0000000f054c89ef4c89e64c89f2b83b0000000f05bf7e00000083f8fe7502ffc7b83c0000000f05",
  },
  /*
   * ldr x3, [sp]; add x19, sp, 16; ldr x20, [x19]; add x21, x19, x3, lsl 3
   * sub sp, sp, 32; stp xzr, xzr, [sp]; stp xzr, xzr, [sp, 16]
   * mov x8, 157; svc 0
   * mov x0, 2; mov x1, sp; mov x2, 0; mov x3, 8; mov x8, 134; svc 0; mov x0, 3; svc 0
   * mov x0, x20; mov x1, x19; mov x2, x21; mov x8, 221; svc 0
   * cmn x0, 2; mov w0, 126; cinc w0, w0, eq; mov x8, 93; svc 0
   */
  {
    uname: "aarch64",
    elf: 0xb7,
    code: "e30340f9f3430091740240f9750e038bff8300d1ff7f00a9ff7f01a9a81380d2010000d4400080d2e1030091020080d2030180d2c81080d2010000d4600080d2010000d4e00314aae10313aae20315aaa81b80d2010000d41f0800b1c00f80520014801aa80b80d2010000d4",
  },
] as const;

const HEADER_BYTES = 64;
const SEGMENT_BYTES = 56;
const ADDRESS = 0x400000;

/** Shell commands that write the program for the machine they run on; none on other machines. */
export function writeStartProgram({ busybox, path }: { busybox: string; path: string }): string {
  const cases = MACHINES.map(({ uname, ...machine }) => {
    const content = elfProgram(machine).toString("base64");
    return `${uname}) echo ${content} | ${busybox} base64 -d > ${path}; ${busybox} chmod 0555 ${path} ;;`;
  });
  return `case "$(${busybox} uname -m)" in\n${cases.join("\n")}\nesac`;
}

/** An ELF file of one segment, https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html. */
function elfProgram({ elf, code }: { elf: number; code: string }): Buffer {
  const text = Buffer.from(code, "hex");
  const start = HEADER_BYTES + SEGMENT_BYTES;
  const head = Buffer.alloc(start);
  // 64 bits, little-endian, version 1; an executable for the machine.
  head.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  head.writeUInt16LE(2, 16);
  head.writeUInt16LE(elf, 18);
  head.writeUInt32LE(1, 20);
  head.writeBigUInt64LE(BigInt(ADDRESS + start), 24);
  head.writeBigUInt64LE(BigInt(HEADER_BYTES), 32);
  head.writeUInt16LE(HEADER_BYTES, 52);
  head.writeUInt16LE(SEGMENT_BYTES, 54);
  head.writeUInt16LE(1, 56);
  head.writeUInt16LE(64, 58);
  // Loads the whole file, to be read and executed.
  head.writeUInt32LE(1, HEADER_BYTES);
  head.writeUInt32LE(5, HEADER_BYTES + 4);
  head.writeBigUInt64LE(BigInt(ADDRESS), HEADER_BYTES + 16);
  head.writeBigUInt64LE(BigInt(ADDRESS), HEADER_BYTES + 24);
  head.writeBigUInt64LE(BigInt(start + text.length), HEADER_BYTES + 32);
  head.writeBigUInt64LE(BigInt(start + text.length), HEADER_BYTES + 40);
  head.writeBigUInt64LE(0x1000n, HEADER_BYTES + 48);
  return Buffer.concat([head, text]);
}
