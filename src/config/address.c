/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes the addresses of ports before the target opens its listeners on them. Blocks; control
 * thread.
 *
 * Two uses. The well-known discovery port is optional and left out when another process has it. And
 * a target that was killed keeps its listeners until the kernel has torn its rings down, so its
 * successor waits a moment instead of failing.
 */
#include "config/address.h"

#include "base/clock.h"
#include "base/log.h"

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

void address_wait(const struct net_addr *addr, uint64_t deadline_ns)
{
	char text[NET_ADDR_TEXT_BYTES];

	if (address_probe(addr) != -EADDRINUSE)
		return;
	log_info("control", "%s is still in use; waiting for a target that was killed",
		 net_addr_format(addr, text));
	while (clock_monotonic_ns() < deadline_ns && address_probe(addr) == -EADDRINUSE)
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
}
