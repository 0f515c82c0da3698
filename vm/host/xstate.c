/*
 * Lets User Mode Linux run on processors whose register state is larger than it knows.
 *
 * User Mode Linux keeps 2696 bytes of a process's extended registers (up to AVX-512 and PKRU) and sets them
 * again with PTRACE_SETREGSET. The host takes only a whole state, which with AMX is 11008 bytes, and answers EFAULT
 * to anything shorter: the guest's first process dies. This library is preloaded into User Mode Linux alone and makes
 * such a call whole. The components that the short state has no room for are not marked in use in its header
 * (XSTATE_BV), so the host takes them as in their initial state whatever the bytes say; no process of a guest can have
 * them in use, because the guest's kernel does not offer them.
 */
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Well above the state of any processor so far. */
#define STATE_BYTES_MAX (64 * 1024)

/* Only one thread of User Mode Linux traces; its kernel stacks are too small for this. */
static char state[STATE_BYTES_MAX] __attribute__((aligned(64)));
static size_t host_bytes;

static long set_whole_state(int pid, void *type, const struct iovec *given)
{
    struct iovec whole = { state, sizeof(state) };

    if (host_bytes == 0) {
        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, type, &whole) != 0)
            return -1;
        host_bytes = whole.iov_len;
        memset(state, 0, sizeof(state));
    }
    if (given->iov_len >= host_bytes)
        return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, type, given);
    memcpy(state, given->iov_base, given->iov_len);
    whole.iov_len = host_bytes;
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, type, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    int pid = va_arg(arguments, int);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
        return set_whole_state(pid, address, data);
    if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) {
        /* The system call stores the word where the C library returns it. */
        long word = 0;
        long result = syscall(SYS_ptrace, request, pid, address, &word);
        return result < 0 ? result : word;
    }
    return syscall(SYS_ptrace, request, pid, address, data);
}
