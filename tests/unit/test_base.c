/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of src/base: text, net_addr, histogram, crc32c, uuid, list, prng, lazy memory, log limits,
 * check.
 *
 * One thread. Expected values are written out by hand or come from the standard that defines them
 * (CRC32C: RFC 3720, appendix B.4).
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/histogram.h"
#include "base/lazy_mem.h"
#include "base/list.h"
#include "base/log.h"
#include "base/net_addr.h"
#include "base/prng.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/uuid.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void text_numbers(void)
{
	uint64_t v = 7;

	EXPECT_EQ(0, text_parse_u64("0", 10, &v));
	EXPECT_EQ(0, v);
	EXPECT_EQ(0, text_parse_u64("18446744073709551615", UINT64_MAX, &v));
	EXPECT_EQ(UINT64_MAX, v);
	EXPECT_EQ(0, text_parse_u64("0xFf", 255, &v));
	EXPECT_EQ(255, v);
	EXPECT_EQ(0, text_parse_u64("010", 100, &v));
	EXPECT_EQ(10, v);
	EXPECT_EQ(-ERANGE, text_parse_u64("18446744073709551616", UINT64_MAX, &v));
	EXPECT_EQ(-ERANGE, text_parse_u64("11", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64("", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64("0x", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64("-1", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64("+1", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64(" 1", 10, &v));
	EXPECT_EQ(-EINVAL, text_parse_u64("1 ", 10, &v));
	EXPECT_EQ(10, v);
}

static void text_sizes(void)
{
	uint64_t v = 0;
	char text[32];

	EXPECT_EQ(0, text_parse_size("512", &v));
	EXPECT_EQ(512, v);
	EXPECT_EQ(0, text_parse_size("10G", &v));
	EXPECT_EQ(10ull << 30, v);
	EXPECT_EQ(0, text_parse_size("10GiB", &v));
	EXPECT_EQ(10ull << 30, v);
	EXPECT_EQ(0, text_parse_size("4k", &v));
	EXPECT_EQ(4096, v);
	EXPECT_EQ(0, text_parse_size("2T", &v));
	EXPECT_EQ(2ull << 40, v);
	EXPECT_EQ(0, text_parse_size("2GB", &v));
	EXPECT_EQ(2000000000, v);
	EXPECT_EQ(0, text_parse_size("3kB", &v));
	EXPECT_EQ(3000, v);
	EXPECT_EQ(0, text_parse_size("1TB", &v));
	EXPECT_EQ(1000000000000, v);
	EXPECT_EQ(-EINVAL, text_parse_size("G", &v));
	EXPECT_EQ(-EINVAL, text_parse_size("1X", &v));
	EXPECT_EQ(-EINVAL, text_parse_size("1.5G", &v));
	EXPECT_EQ(-ERANGE, text_parse_size("99999999999T", &v));
	EXPECT_STR("512 B", text_format_size(512, text, sizeof(text)));
	EXPECT_STR("1.5 GiB", text_format_size(3ull << 29, text, sizeof(text)));
	EXPECT_STR("10 GiB", text_format_size(10ull << 30, text, sizeof(text)));
	EXPECT_STR("15.9 EiB", text_format_size(UINT64_MAX, text, sizeof(text)));
}

static void text_parts_of_a_path(void)
{
	char *part = text_path_part("nqn.2014-08.org:a/b c%\xc3\xa4");

	EXPECT_STR("nqn.2014-08.org:a%2Fb%20c%25%C3%A4", part);
	free(part);
	part = text_path_part("");
	EXPECT_STR("", part);
	free(part);
}

static void text_durations_and_copy(void)
{
	uint64_t v = 0;
	char text[4];

	EXPECT_EQ(0, text_parse_duration_ms("250ms", &v));
	EXPECT_EQ(250, v);
	EXPECT_EQ(0, text_parse_duration_ms("5", &v));
	EXPECT_EQ(5000, v);
	EXPECT_EQ(0, text_parse_duration_ms("5s", &v));
	EXPECT_EQ(5000, v);
	EXPECT_EQ(0, text_parse_duration_ms("2m", &v));
	EXPECT_EQ(120000, v);
	EXPECT_EQ(0, text_parse_duration_ms("1h", &v));
	EXPECT_EQ(3600000, v);
	EXPECT_EQ(0, text_parse_duration_ms("1.5s", &v));
	EXPECT_EQ(1500, v);
	EXPECT_EQ(0, text_parse_duration_ms("0.25", &v));
	EXPECT_EQ(250, v);
	EXPECT_EQ(0, text_parse_duration_ms("1.5m", &v));
	EXPECT_EQ(90000, v);
	EXPECT_EQ(0, text_parse_duration_ms("0.000001h", &v));
	EXPECT_EQ(4, v); /* 3.6 */
	EXPECT_EQ(0, text_parse_duration_ms("2.0ms", &v));
	EXPECT_EQ(2, v);
	EXPECT_EQ(0, text_parse_duration_ms("0.000000001s", &v));
	EXPECT_EQ(1, v);
	EXPECT_EQ(-EINVAL, text_parse_duration_ms("1.0000000001s", &v));
	EXPECT_EQ(-EINVAL, text_parse_duration_ms("1.s", &v));
	EXPECT_EQ(-EINVAL, text_parse_duration_ms(".5s", &v));
	EXPECT_EQ(-EINVAL, text_parse_duration_ms("1.5.5s", &v));
	EXPECT_EQ(-EINVAL, text_parse_duration_ms("1.-5s", &v));
	EXPECT_EQ(0, text_parse_duration_ms("18446744073709551.615s", &v));
	EXPECT_EQ(UINT64_MAX, v);
	EXPECT_EQ(-ERANGE, text_parse_duration_ms("18446744073709551.616s", &v));
	EXPECT_EQ(-EINVAL, text_parse_duration_ms("5 s", &v));
	EXPECT_EQ(-ERANGE, text_parse_duration_ms("9999999999999999h", &v));
	EXPECT_EQ(6, text_copy(text, sizeof(text), "abcdef"));
	EXPECT_STR("abc", text);
	EXPECT_EQ(3, text_copy(text, sizeof(text), "xyz"));
	EXPECT_STR("xyz", text);
	EXPECT_EQ(0, text_copy(text, sizeof(text), ""));
	EXPECT_STR("", text);
}

static void net_addr_round_trip(void)
{
	static const struct {
		const char *in, *out, *host;
		uint16_t port;
		bool is_ipv6, is_any;
	} rows[] = {
		{"127.0.0.1:4420", "127.0.0.1:4420", "127.0.0.1", 4420, false, false},
		{"10.1.2.3", "10.1.2.3:8009", "10.1.2.3", 8009, false, false},
		{"0.0.0.0:0", "0.0.0.0:0", "0.0.0.0", 0, false, true},
		{"[::1]:4420", "[::1]:4420", "::1", 4420, true, false},
		{"[fe80::1%7]:1", "[fe80::1%7]:1", "fe80::1%7", 1, true, false},
		{"::1", "[::1]:8009", "::1", 8009, true, false},
		{"[::]", "[::]:8009", "::", 8009, true, true},
	};
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr addr;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		EXPECT_EQ(0, net_addr_parse(rows[i].in, 8009, &addr));
		EXPECT_STR(rows[i].out, net_addr_format(&addr, text));
		EXPECT_STR(rows[i].host, net_addr_format_host(&addr, text));
		EXPECT_EQ(rows[i].port, net_addr_port(&addr));
		EXPECT_EQ(rows[i].is_ipv6, net_addr_is_ipv6(&addr));
		EXPECT_EQ(rows[i].is_any, net_addr_is_any(&addr));
	}
}

static void net_addr_refuses(void)
{
	static const char *const bad[] = {
		"",
		"localhost",
		"1.2.3",
		"1.2.3.4:",
		"1.2.3.4:65536",
		"1.2.3.4:-1",
		"[::1",
		"[::1]4420",
		"[1.2.3.4]:1",
		"1.2.3.4:1:2",
		"[fe80::1%]:1",
		"256.1.1.1:4420",
		":4420",
	};
	struct net_addr addr;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (net_addr_parse(bad[i], 1, &addr) == 0)
			printf("# accepted: %s\n", bad[i]);
		EXPECT_EQ(-EINVAL, net_addr_parse(bad[i], 1, &addr));
	}
}

static void net_addr_compares_hosts(void)
{
	struct net_addr a, b, c, d;

	EXPECT_EQ(0, net_addr_parse("127.0.0.1:1", 0, &a));
	EXPECT_EQ(0, net_addr_parse("127.0.0.1:2", 0, &b));
	EXPECT_EQ(0, net_addr_parse("127.0.0.2:1", 0, &c));
	EXPECT_EQ(0, net_addr_parse("[::1]:1", 0, &d));
	EXPECT(net_addr_same_host(&a, &b));
	EXPECT(!net_addr_same_host(&a, &c));
	EXPECT(!net_addr_same_host(&a, &d));
	EXPECT(net_addr_same_host(&d, &d));
	EXPECT_EQ(0, net_addr_resolve("127.0.0.1", 4420, &b));
	EXPECT(net_addr_same_host(&a, &b));
	EXPECT_EQ(4420, net_addr_port(&b));
	EXPECT_EQ(-EHOSTUNREACH, net_addr_resolve("no such host", 4420, &b));
}

static struct histogram one, two;

/* All bytes of an IPv6 address count: two with the same first bytes are two hosts. */
static void net_addr_from_the_kernel(void)
{
	static const char *const texts[] = {"10.0.0.1:4420", "[fd00::1]:4420", "[fd00::2]:4420"};
	const struct sockaddr_un other = {.sun_family = AF_UNIX};
	struct net_addr addrs[3];
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr parsed;

	for (unsigned i = 0; i < 3; i++) {
		EXPECT_EQ(0, net_addr_parse(texts[i], 0, &parsed));
		net_addr_from((const struct sockaddr *)&parsed.storage, &addrs[i]);
		EXPECT_STR(texts[i], net_addr_format(&addrs[i], text));
		for (unsigned j = 0; j < i; j++)
			EXPECT(!net_addr_same_host(&addrs[i], &addrs[j]));
	}
	net_addr_from((const struct sockaddr *)&other, &parsed);
	EXPECT(!net_addr_same_host(&parsed, &addrs[0]));
}

static void net_addr_of_a_unix_socket(void)
{
	static const char long_path[] =
		"/a/folder/that/is/far/away/and/deep/below/others/with/names/of/some/length/x.sock";
	struct sockaddr_un unix_addr = {.sun_family = AF_UNIX};
	struct net_addr addr = {.len_bytes = sizeof(unix_addr)};
	char text[NET_ADDR_TEXT_BYTES];

	text_copy(unix_addr.sun_path, sizeof(unix_addr.sun_path), "/run/weft/peer.sock");
	memcpy(&addr.storage, &unix_addr, sizeof(unix_addr));
	EXPECT_STR("unix:/run/weft/peer.sock", net_addr_format(&addr, text));
	text_copy(unix_addr.sun_path, sizeof(unix_addr.sun_path), long_path);
	memcpy(&addr.storage, &unix_addr, sizeof(unix_addr));
	net_addr_format(&addr, text);
	EXPECT_EQ(NET_ADDR_TEXT_BYTES - 1, strlen(text));
	EXPECT_EQ(0, strncmp(text, "unix:...", 8));
	EXPECT_STR(long_path + strlen(long_path) - 55, text + 8);
	/* A peer without a bound name. */
	addr.len_bytes = sizeof(sa_family_t);
	EXPECT_STR("unix:", net_addr_format(&addr, text));
}

static void histogram_of_a_ramp(void)
{
	histogram_init(&one);
	EXPECT_EQ(0, histogram_percentile(&one, 50));
	EXPECT_EQ(0, histogram_mean(&one));
	for (uint64_t v = 1; v <= 100000; v++)
		histogram_record(&one, v);
	EXPECT_EQ(100000, one.count);
	EXPECT_EQ(1, one.min_ns);
	EXPECT_EQ(100000, one.max_ns);
	EXPECT_EQ(50000, histogram_mean(&one));
	EXPECT_EQ(100000, histogram_percentile(&one, 100));
	EXPECT_EQ(1, histogram_percentile(&one, 0));
	for (unsigned p = 1; p < 100; p++) {
		uint64_t exact = p * 1000, got = histogram_percentile(&one, p);

		EXPECT(got >= exact && got - exact <= exact * 16 / 1000);
	}
}

static void histogram_merges_and_clips(void)
{
	histogram_init(&one);
	histogram_init(&two);
	for (unsigned i = 0; i < 63; i++)
		histogram_record(&one, 5);
	histogram_record(&two, UINT64_MAX);
	histogram_merge(&two, &one);
	EXPECT_EQ(64, two.count);
	EXPECT_EQ(5, two.min_ns);
	EXPECT_EQ(UINT64_MAX, two.max_ns);
	EXPECT_EQ(5, histogram_percentile(&two, 50));
	EXPECT_EQ(UINT64_MAX, histogram_percentile(&two, 99.9));
	EXPECT_EQ(1, two.buckets[HISTOGRAM_BUCKETS - 1]);
}

static void crc32c_known_values(void)
{
	uint8_t bytes[32];

	EXPECT_EQ(0xe3069283u, crc32c("123456789", 9));
	EXPECT_EQ(0, crc32c("", 0));
	memset(bytes, 0, sizeof(bytes));
	EXPECT_EQ(0x8a9136aau, crc32c(bytes, sizeof(bytes)));
	memset(bytes, 0xff, sizeof(bytes));
	EXPECT_EQ(0x62a8ab43u, crc32c(bytes, sizeof(bytes)));
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	EXPECT_EQ(0x46dd794eu, crc32c(bytes, sizeof(bytes)));
}

static void crc32c_portable_agrees(void)
{
	static uint8_t bytes[5000];
	struct prng prng;

	prng_seed(&prng, 1);
	prng_fill(&prng, bytes, sizeof(bytes));
	for (unsigned i = 0; i < 300; i++) {
		size_t at = prng_below(&prng, 64), len = prng_below(&prng, sizeof(bytes) - 64);
		size_t cut = len ? prng_below(&prng, len) : 0;
		uint32_t whole = crc32c_update(CRC32C_START, bytes + at, len);
		uint32_t pieces = crc32c_update(CRC32C_START, bytes + at, cut);

		EXPECT_EQ(whole, crc32c_update_portable(CRC32C_START, bytes + at, len));
		EXPECT_EQ(whole, crc32c_update(pieces, bytes + at + cut, len - cut));
	}
}

static void uuid_forms(void)
{
	struct uuid a, b, nil = {{0}};
	char text[UUID_TEXT_BYTES];

	EXPECT_EQ(0, uuid_parse("00112233-4455-6677-8899-AABBCCDDEEFF", &a));
	EXPECT_EQ(0xff, a.bytes[15]);
	EXPECT_STR("00112233-4455-6677-8899-aabbccddeeff", uuid_format(&a, text));
	EXPECT_EQ(-EINVAL, uuid_parse("", &b));
	EXPECT_EQ(-EINVAL, uuid_parse("00112233-4455-6677-8899-aabbccddeef", &b));
	EXPECT_EQ(-EINVAL, uuid_parse("00112233-4455-6677-8899-aabbccddeeffa", &b));
	EXPECT_EQ(-EINVAL, uuid_parse("0011223304455-6677-8899-aabbccddeeff", &b));
	EXPECT_EQ(-EINVAL, uuid_parse("g0112233-4455-6677-8899-aabbccddeeff", &b));
	EXPECT(uuid_is_nil(&nil) && !uuid_is_nil(&a));
	uuid_random(&a);
	uuid_random(&b);
	EXPECT(!uuid_equal(&a, &b));
	EXPECT_EQ(4, a.bytes[6] >> 4);
	EXPECT_EQ(2, a.bytes[8] >> 6);
}

static void uuid_of_a_name_is_for_ever(void)
{
	struct uuid a, b, c;
	char text[UUID_TEXT_BYTES];

	uuid_from_name("nqn.2026-11.io.weft:default/1", &a);
	uuid_from_name("nqn.2026-11.io.weft:default/1", &b);
	uuid_from_name("nqn.2026-11.io.weft:default/2", &c);
	EXPECT(uuid_equal(&a, &b));
	EXPECT(!uuid_equal(&a, &c));
	EXPECT_EQ(8, a.bytes[6] >> 4);
	EXPECT_EQ(2, a.bytes[8] >> 6);
	/* Frozen: a change here would give every namespace in the field a new identity. */
	EXPECT_STR("e34096f3-3be7-8435-bc7d-20563b228f8b", uuid_format(&a, text));
}

struct item {
	struct list node;
	int value;
};

static void list_keeps_order(void)
{
	struct list head, other;
	struct item items[4];
	int sum = 0;

	list_init(&head);
	list_init(&other);
	EXPECT(list_empty(&head) && !list_pop_front(&head));
	for (int i = 0; i < 4; i++) {
		items[i].value = i;
		list_init(&items[i].node);
		EXPECT(!list_linked(&items[i].node));
		list_push_back(i < 2 ? &head : &other, &items[i].node);
	}
	list_splice_back(&head, &other);
	EXPECT(list_empty(&other));
	list_remove(&items[1].node);
	list_remove(&items[1].node);
	list_push_front(&head, &items[1].node);
	list_for_each_safe(pos, &head) {
		sum = sum * 10 + list_entry(pos, struct item, node)->value;
		list_remove(pos);
	}
	EXPECT_EQ(1023, sum);
	EXPECT(list_empty(&head));
}

static void prng_is_fixed_by_its_seed(void)
{
	struct prng a, b;
	unsigned seen[10] = {0}, hits = 0;

	prng_seed(&a, 42);
	prng_seed(&b, 42);
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t value = prng_below(&a, 10);

		EXPECT(value < 10 && value == prng_below(&b, 10));
		seen[value]++;
	}
	for (unsigned i = 0; i < 10; i++)
		EXPECT(seen[i] > 850 && seen[i] < 1150);
	for (unsigned i = 0; i < 10000; i++)
		hits += prng_one_in(&a, 4);
	EXPECT(hits > 2200 && hits < 2800);
	prng_seed(&b, 43);
	EXPECT(prng_next(&a) != prng_next(&b));
}

static void log_limit_lets_ten_through(void)
{
	struct log_limit limit = {0};
	unsigned passed = 0;
	uint32_t held_back;

	for (unsigned i = 0; i < 25; i++)
		passed += log_limit_pass(&limit, &held_back);
	EXPECT_EQ(10, passed);
	/* Pretend that the window started over a second ago. */
	limit.window_start_ns -= 2 * NS_PER_S;
	EXPECT(log_limit_pass(&limit, &held_back));
	EXPECT_EQ(15, held_back);
	EXPECT(log_limit_pass(&limit, &held_back));
	EXPECT_EQ(0, held_back);
}

/* Runs fn in a child whose standard error is a pipe. Returns the wait status. */
static int run_child(void (*fn)(void), char *text, size_t text_bytes)
{
	int pipe_fds[2], status = -1;
	ssize_t got;
	pid_t child;

	EXPECT_EQ(0, pipe(pipe_fds));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		dup2(pipe_fds[1], STDERR_FILENO);
		fn();
		_exit(0);
	}
	close(pipe_fds[1]);
	got = read(pipe_fds[0], text, text_bytes - 1);
	text[got > 0 ? got : 0] = 0;
	close(pipe_fds[0]);
	EXPECT_EQ(child, waitpid(child, &status, 0));
	return status;
}

static void write_a_line(void)
{
	log_debug("tests", "hidden");
	log_warn("tests", "peer %d said \"a\nb\"", 7);
}

static void fail_a_check(void)
{
	signal(SIGABRT, SIG_DFL);
	CHECK(1 + 1 == 3);
}

static void log_line_has_its_form(void)
{
	char text[256];
	int status = run_child(write_a_line, text, sizeof(text));

	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* 2026-11-15T04:31:58.123Z */
	EXPECT(strlen(text) > 24 && text[4] == '-' && text[10] == 'T' && text[19] == '.');
	EXPECT_STR("Z warn tests: peer 7 said \"a\\u000ab\"\n", text + 23);
}

static void check_ends_the_process(void)
{
	char text[256];
	int status = run_child(fail_a_check, text, sizeof(text));

	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	EXPECT(strstr(text, "test_base.c:") && strstr(text, "check failed: 1 + 1 == 3\n"));
}

static void clocks_go_forward(void)
{
	uint64_t before_ns = clock_monotonic_ns(), cpu_ns = clock_thread_cpu_ns();

	while (clock_thread_cpu_ns() - cpu_ns < NS_PER_MS)
		continue;
	EXPECT(clock_monotonic_ns() - before_ns >= NS_PER_MS);
	EXPECT(clock_process_cpu_ns() >= NS_PER_MS);
	EXPECT(clock_realtime_ns() > 1700000000 * NS_PER_S);
}

static bool is_zero(const uint8_t *mem, size_t len_bytes)
{
	for (size_t i = 0; i < len_bytes; i++) {
		if (mem[i] != 0)
			return false;
	}
	return true;
}

/* Memory that was written and freed must be zero when allocated again, whatever its size. */
static void lazy_memory_is_zero(void)
{
	static const size_t sizes[] = {1, 800, 8192, 8193, 100000, 1 << 20};

	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			uint8_t *mem = lazy_mem_get(sizes[i]);

			EXPECT(mem != NULL && is_zero(mem, sizes[i]));
			memset(mem, 0xa5, sizes[i]);
			lazy_mem_put(mem, sizes[i]);
		}
	}
	lazy_mem_put(NULL, 100000);
}

#ifndef __SANITIZE_ADDRESS__
static size_t resident_pages(void *mem, size_t len_bytes)
{
	unsigned char pages[64];
	size_t count = 0;

	EXPECT_EQ(0, mincore(mem, len_bytes, pages));
	for (size_t i = 0; i < len_bytes / 4096; i++)
		count += pages[i] & 1;
	return count;
}

static void lazy_memory_costs_what_is_touched(void)
{
	const size_t len_bytes = 64 * 4096;
	uint8_t *mem = lazy_mem_get(len_bytes);

	EXPECT_EQ(0, resident_pages(mem, len_bytes));
	mem[5 * 4096] = 1;
	EXPECT_EQ(1, resident_pages(mem, len_bytes));
	lazy_mem_put(mem, len_bytes);
}
#endif

static void expect_escape(const char *from, const char *want)
{
	char shown[256], again[256];
	char *copy;

	EXPECT_STR(want, text_escape(from, shown, sizeof(shown)));
	EXPECT_STR(want, text_escape(shown, again, sizeof(again)));
	copy = text_escape_dup(from);
	EXPECT_STR(want, copy);
	free(copy);
}

static void foreign_text_is_escaped(void)
{
	char small[6];

	expect_escape("", "");
	expect_escape("plain ~ \\ text", "plain ~ \\ text");
	expect_escape("Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		      "Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	expect_escape("a\x1b[2J\n\r\t\x7f"
		      "b",
		      "a\\u001b[2J\\u000a\\u000d\\u0009\\u007fb");
	expect_escape("\xc2\x9b"
		      "31m",
		      "\\u009b31m"); /* C1: CSI */
	expect_escape("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8", "\\u202e\\u2066\\u2028");
	expect_escape("\xf3\xa0\x81\x81", "\\udb40\\udc41");                  /* U+E0041, hidden */
	expect_escape("\xff\xc3(\xed\xa0\x80", "\\xff\\xc3(\\xed\\xa0\\x80"); /* not UTF-8 */
	/* A text is cut between characters, never inside an escape. */
	EXPECT_STR("ab", text_escape("ab\x1b", small, sizeof(small)));
	EXPECT_STR("abcd", text_escape("abcd\xc3\xbc", small, sizeof(small)));
	EXPECT_STR("", text_escape("x", small, 1));
}

/* Every sorted array of up to 8 even numbers is searched for every number in and between them. */
static void sorted_place_is_the_first_that_is_not_below(void)
{
	for (unsigned count = 0; count <= 8; count++) {
		unsigned numbers[8], looks;

		for (unsigned i = 0; i < count; i++)
			numbers[i] = 2 * i + 2;
		for (unsigned wanted = 0; wanted <= 2 * count + 3; wanted++) {
			unsigned place = 0;

			while (place < count && numbers[place] < wanted)
				place++;
			looks = 0;
			EXPECT_EQ(place,
				  SORTED_PLACE(i, count, looks++ < 5 && numbers[i] < wanted));
			EXPECT(looks <= 4);
		}
	}
	/* The first of equal ones. */
	EXPECT_EQ(1, SORTED_PLACE(i, 4, "abbb"[i] < 'b'));
}

int main(void)
{
	TAP_RUN(text_numbers);
	TAP_RUN(text_sizes);
	TAP_RUN(text_durations_and_copy);
	TAP_RUN(text_parts_of_a_path);
	TAP_RUN(foreign_text_is_escaped);
	TAP_RUN(net_addr_round_trip);
	TAP_RUN(net_addr_refuses);
	TAP_RUN(net_addr_compares_hosts);
	TAP_RUN(net_addr_from_the_kernel);
	TAP_RUN(net_addr_of_a_unix_socket);
	TAP_RUN(histogram_of_a_ramp);
	TAP_RUN(histogram_merges_and_clips);
	TAP_RUN(crc32c_known_values);
	TAP_RUN(crc32c_portable_agrees);
	TAP_RUN(uuid_forms);
	TAP_RUN(uuid_of_a_name_is_for_ever);
	TAP_RUN(list_keeps_order);
	TAP_RUN(prng_is_fixed_by_its_seed);
	TAP_RUN(log_limit_lets_ten_through);
	TAP_RUN(log_line_has_its_form);
	TAP_RUN(check_ends_the_process);
	TAP_RUN(clocks_go_forward);
	TAP_RUN(lazy_memory_is_zero);
	TAP_RUN(sorted_place_is_the_first_that_is_not_below);
#ifndef __SANITIZE_ADDRESS__
	TAP_RUN(lazy_memory_costs_what_is_touched);
#endif
	return tap_end();
}
