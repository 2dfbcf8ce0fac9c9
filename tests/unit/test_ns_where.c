/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a namespace, part by part and as a URL: every form of an address, limits, and
 * errors. One thread.
 */
#include "client/ns_where.h"
#include "tap.h"

#include <errno.h>

static void an_address_is_split_from_its_port(void)
{
	static const struct {
		const char *text, *address, *service;
	} rows[] = {
		{"192.0.2.7", "192.0.2.7", NULL},    {"192.0.2.7:4421", "192.0.2.7", "4421"},
		{"storage:8009", "storage", "8009"}, {"fe80::7", "fe80::7", NULL},
		{"[fe80::7]", "fe80::7", NULL},      {"[fe80::7]:4421", "fe80::7", "4421"},
	};
	static struct ns_where where;
	struct ns_where_error error;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT_EQ(0, ns_where_add_path(&where, rows[i].text, &error));
		EXPECT_STR(rows[i].address, where.paths[i].address);
		if (rows[i].service != NULL)
			EXPECT_STR(rows[i].service, where.paths[i].service);
		else
			EXPECT(where.paths[i].service == NULL);
	}
	EXPECT_EQ(sizeof(rows) / sizeof(rows[0]), where.path_count);
	EXPECT_EQ(0, ns_where_set_discovery(&where, "[::1]:8010", &error));
	EXPECT_STR("::1", where.discovery.address);
	EXPECT_STR("8010", where.discovery.service);
}

static void what_is_no_address_is_refused(void)
{
	static const char *const rows[] = {"", ":4420", "192.0.2.7:", "[::1", "[::1]x", "[]"};
	static struct ns_where where;
	struct ns_where_error error;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT_EQ(-EINVAL, ns_where_add_path(&where, rows[i], &error));
		EXPECT(strstr(error.text, "is not an address; write ADDR or ADDR:PORT") != NULL);
	}
	EXPECT_EQ(0, where.path_count);
	for (unsigned i = 0; i < NS_PATHS_MAX; i++)
		EXPECT_EQ(0, ns_where_add_path(&where, "192.0.2.7", &error));
	EXPECT_EQ(-EINVAL, ns_where_add_path(&where, "192.0.2.7", &error));
	EXPECT_STR("more than 32 paths", error.text);
}

static void an_nsid_is_one_namespace(void)
{
	static struct ns_where where;
	struct ns_where_error error;

	EXPECT_EQ(0, ns_where_set_nsid(&where, "4294967294", &error));
	EXPECT_EQ(0xfffffffe, where.nsid);
	EXPECT_EQ(-EINVAL, ns_where_set_nsid(&where, "0", &error));
	EXPECT_EQ(-EINVAL, ns_where_set_nsid(&where, "4294967295", &error));
	EXPECT_EQ(-EINVAL, ns_where_set_nsid(&where, "two", &error));
	EXPECT_STR("\"two\" is not a namespace identifier", error.text);
}

static void a_url_has_paths_nqn_and_nsid(void)
{
	static struct ns_where where;
	struct ns_where_error error;

	EXPECT(ns_where_is_url("nvme://x") && !ns_where_is_url("/dev/nvme0n1"));
	/* An NQN may contain a slash. */
	EXPECT_EQ(0, ns_where_from_url(&where,
				       "nvme://192.0.2.7,[fe80::7]:4421/nqn.2026-11.io.weft:a/b/17",
				       &error));
	EXPECT_EQ(2, where.path_count);
	EXPECT_STR("192.0.2.7", where.paths[0].address);
	EXPECT_STR("fe80::7", where.paths[1].address);
	EXPECT_STR("4421", where.paths[1].service);
	EXPECT_STR("nqn.2026-11.io.weft:a/b", where.nqn);
	EXPECT_EQ(17, where.nsid);
}

static void a_wrong_url_is_explained(void)
{
	static const struct {
		const char *url, *said;
	} rows[] = {
		{"nvme://", "names no namespace"},
		{"nvme://192.0.2.7", "names no namespace"},
		{"nvme://192.0.2.7/nqn", "names no namespace"},
		{"nvme://192.0.2.7//1", "names no namespace"},
		{"nvme:///nqn/1", "is not an address"},
		{"nvme://192.0.2.7,/nqn/1", "is not an address"},
		{"nvme://192.0.2.7:/nqn/1", "is not an address"},
		{"nvme://[::1/nqn/1", "is not an address"},
		{"nvme://192.0.2.7/nqn/0", "is not a namespace identifier"},
		{"nvme://192.0.2.7/nqn/x", "is not a namespace identifier"},
	};
	static struct ns_where where;
	struct ns_where_error error;
	static char url[NS_WHERE_TEXT_BYTES + 32];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT_EQ(-EINVAL, ns_where_from_url(&where, rows[i].url, &error));
		EXPECT(strstr(error.text, rows[i].said) != NULL);
	}
	memset(url, 'n', sizeof(url) - 1);
	memcpy(url, "nvme://192.0.2.7/", strlen("nvme://192.0.2.7/"));
	memcpy(url + sizeof(url) - 3, "/1", 2);
	EXPECT_EQ(-EINVAL, ns_where_from_url(&where, url, &error));
	EXPECT(strstr(error.text, "is too long") != NULL);
}

int main(void)
{
	TAP_RUN(an_address_is_split_from_its_port);
	TAP_RUN(what_is_no_address_is_refused);
	TAP_RUN(an_nsid_is_one_namespace);
	TAP_RUN(a_url_has_paths_nqn_and_nsid);
	TAP_RUN(a_wrong_url_is_explained);
	return tap_end();
}
