/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes the addresses of ports, and of a cluster's member, before the target opens its listeners
 * on them. Blocks; control thread.
 *
 * Two uses. The well-known discovery port is optional and left out when another process has it. And
 * a target that was killed keeps its listeners until the kernel has torn its rings down, so its
 * successor waits a moment instead of failing.
 */
#include "config/address.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/unix_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_NS (20 * NS_PER_MS)

int address_probe(const struct net_addr *addr)
{
	int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, res = 0;

	if (fd < 0)
		return -errno;
	/* The same options as the listener's; else a listener of the other address family on this
	 * port would make the probe fail. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (net_addr_is_ipv6(addr))
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&addr->storage, addr->len_bytes) || listen(fd, 1))
		res = -errno;
	close(fd);
	return res;
}

/* Calls `probe` until the address is free or the deadline has passed. `shown` is for the log. */
static void wait_while_in_use(int (*probe)(const void *arg), const void *arg, const char *shown,
			      uint64_t deadline_ns)
{
	if (probe(arg) != -EADDRINUSE)
		return;
	log_info("control", "%s is still in use; waiting for a target that was killed", shown);
	while (clock_monotonic_ns() < deadline_ns && probe(arg) == -EADDRINUSE)
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
}

static int probe_net(const void *arg)
{
	return address_probe(arg);
}

static int probe_unix(const void *arg)
{
	return unix_socket_clear(arg);
}

void address_wait(const struct net_addr *addr, uint64_t deadline_ns)
{
	char text[NET_ADDR_TEXT_BYTES];

	wait_while_in_use(probe_net, addr, net_addr_format(addr, text), deadline_ns);
}

void address_wait_unix(const char *path, uint64_t deadline_ns)
{
	wait_while_in_use(probe_unix, path, path, deadline_ns);
}
