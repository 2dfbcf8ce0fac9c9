/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that name a side on the call stack; see the header. The wrapped functions are those
 * between the reactor and a connection; timers and messages do not occur in the steady state. A new
 * function of reactor/reactor.h that enters or leaves a side belongs into the two lists below. One
 * thread.
 */
#include "side_scope.h"

#include "base/check.h"

#include <string.h>

#define ENTRIES 64

#if defined(__clang__)
#define NAMED __attribute__((noinline))
#else
#define NAMED __attribute__((noinline, noclone))
#endif
/*
 * After a call, so that the compiler emits no tail call, which would drop the caller from the
 * stack. The text becomes an assembly comment: functions that differ in it are not folded into one.
 */
#define NOT_LAST(text) __asm__ volatile("# " text : : : "memory")

typedef void (*ready_fn)(struct reactor_sock *sock, unsigned events);
typedef void (*defer_fn)(struct reactor_defer *defer);

ssize_t __real_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count);
ssize_t __wrap_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count);
ssize_t __real_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count);
ssize_t __wrap_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count);
void __real_reactor_sock_want(struct reactor_sock *sock, unsigned events);
void __wrap_reactor_sock_want(struct reactor_sock *sock, unsigned events);
size_t __real_reactor_sock_available(const struct reactor_sock *sock);
size_t __wrap_reactor_sock_available(const struct reactor_sock *sock);
void __real_reactor_defer_init(struct reactor_defer *defer, defer_fn fn);
void __wrap_reactor_defer_init(struct reactor_defer *defer, defer_fn fn);
void __real_reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
			      ready_fn ready);
void __wrap_reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
			      ready_fn ready);
void __real_reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
				 const struct net_addr *addr,
				 void (*connected)(struct reactor_sock *sock, int res),
				 ready_fn ready);
void __wrap_reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
				 const struct net_addr *addr,
				 void (*connected)(struct reactor_sock *sock, int res),
				 ready_fn ready);

static struct reactor *target_reactor, *host_reactor;

/* The real callbacks, by the object they belong to. Few: connections and their parts. */
static struct {
	const void *object;
	ready_fn ready;
	defer_fn deferred;
} entries[ENTRIES];
static unsigned entry_count;

void side_scope_init(struct reactor *target, struct reactor *host)
{
	target_reactor = target;
	host_reactor = host;
}

static unsigned entry_find(const void *object)
{
	for (unsigned i = 0; i < entry_count; i++)
		if (entries[i].object == object)
			return i;
	CHECK(entry_count < ENTRIES);
	entries[entry_count].object = object;
	return entry_count++;
}

/* ---- in: callbacks -------------------------------------------------------------------------- */

#define SIDE_IN(side)                                                                              \
	NAMED static void side##_in_ready(ready_fn fn, struct reactor_sock *sock, unsigned events) \
	{                                                                                          \
		fn(sock, events);                                                                  \
		NOT_LAST(#side "_in_ready");                                                       \
	}                                                                                          \
	NAMED static void side##_in_deferred(defer_fn fn, struct reactor_defer *defer)             \
	{                                                                                          \
		fn(defer);                                                                         \
		NOT_LAST(#side "_in_deferred");                                                    \
	}

SIDE_IN(target)
SIDE_IN(host)

NAMED void host_in_call(void (*fn)(void *arg), void *arg)
{
	fn(arg);
	NOT_LAST("host_in_call");
}

static void ready_pass(struct reactor_sock *sock, unsigned events)
{
	ready_fn fn = entries[entry_find(sock)].ready;

	if (reactor_current() == target_reactor)
		target_in_ready(fn, sock, events);
	else
		host_in_ready(fn, sock, events);
}

static void deferred_pass(struct reactor_defer *defer)
{
	defer_fn fn = entries[entry_find(defer)].deferred;

	if (reactor_current() == target_reactor)
		target_in_deferred(fn, defer);
	else if (reactor_current() == host_reactor)
		host_in_deferred(fn, defer);
	else
		fn(defer);
}

void __wrap_reactor_defer_init(struct reactor_defer *defer, defer_fn fn)
{
	entries[entry_find(defer)].deferred = fn;
	__real_reactor_defer_init(defer, deferred_pass);
}

void __wrap_reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
			      ready_fn ready)
{
	entries[entry_find(sock)].ready = ready;
	__real_reactor_sock_open(reactor, sock, taken_fd, ready_pass);
}

void __wrap_reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
				 const struct net_addr *addr,
				 void (*connected)(struct reactor_sock *sock, int res),
				 ready_fn ready)
{
	entries[entry_find(sock)].ready = ready;
	__real_reactor_sock_connect(reactor, sock, addr, connected, ready_pass);
}

/* ---- out: the simulated sockets ------------------------------------------------------------- */

#define SIDE_OUT(side)                                                                             \
	NAMED static ssize_t side##_out_recv(struct reactor_sock *sock, const struct iovec *iov,   \
					     unsigned iov_count)                                   \
	{                                                                                          \
		ssize_t res = __real_reactor_sock_recv(sock, iov, iov_count);                      \
                                                                                                   \
		NOT_LAST(#side "_out_recv");                                                       \
		return res;                                                                        \
	}                                                                                          \
	NAMED static ssize_t side##_out_send(struct reactor_sock *sock, const struct iovec *iov,   \
					     unsigned iov_count)                                   \
	{                                                                                          \
		ssize_t res = __real_reactor_sock_send(sock, iov, iov_count);                      \
                                                                                                   \
		NOT_LAST(#side "_out_send");                                                       \
		return res;                                                                        \
	}                                                                                          \
	NAMED static void side##_out_want(struct reactor_sock *sock, unsigned events)              \
	{                                                                                          \
		__real_reactor_sock_want(sock, events);                                            \
		NOT_LAST(#side "_out_want");                                                       \
	}                                                                                          \
	NAMED static size_t side##_out_available(const struct reactor_sock *sock)                  \
	{                                                                                          \
		size_t bytes = __real_reactor_sock_available(sock);                                \
                                                                                                   \
		NOT_LAST(#side "_out_available");                                                  \
		return bytes;                                                                      \
	}

SIDE_OUT(target)
SIDE_OUT(host)

static bool is_target(const struct reactor_sock *sock)
{
	return sock->reactor == target_reactor;
}

ssize_t __wrap_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count)
{
	return is_target(sock) ? target_out_recv(sock, iov, iov_count)
			       : host_out_recv(sock, iov, iov_count);
}

ssize_t __wrap_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned iov_count)
{
	return is_target(sock) ? target_out_send(sock, iov, iov_count)
			       : host_out_send(sock, iov, iov_count);
}

void __wrap_reactor_sock_want(struct reactor_sock *sock, unsigned events)
{
	if (is_target(sock))
		target_out_want(sock, events);
	else
		host_out_want(sock, events);
}

size_t __wrap_reactor_sock_available(const struct reactor_sock *sock)
{
	return is_target(sock) ? target_out_available(sock) : host_out_available(sock);
}
