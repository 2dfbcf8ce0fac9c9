/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe Qualified Names, good and bad. NVMe Base 2.1, section 4.7. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/nqn.h"

static const char *const good[] = {
	"nqn.2014-08.org.nvmexpress.discovery",
	"nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
	"nqn.2026-11.io.weft:default",
	"nqn.2016-06.io.spdk:cnode1",
	"nqn.1992-08.com.netapp:sn.d8:subsystem.a b",
	"nqn.2014-08.com.example:nvme.host.sys.xyz",
	"nqn.2014-08.com.example:stra\xc3\x9f!",
	"nqn.2014-08.com.example:\xf0\x9f\x92\xbe",
};

static const struct {
	const char *nqn;
	const char *problem;
} bad[] = {
	{"", "is empty"},
	{"iqn.2014-08.com.example:x", "does not begin with \"nqn.\""},
	{"NQN.2014-08.com.example:x", "does not begin with \"nqn.\""},
	{"nqn", "does not begin with \"nqn.\""},
	{"nqn.", "has no date"},
	{"nqn.2014", "has no date"},
	{"nqn.com.example:x", "has no date"},
	{"nqn.2014-13.com.example:x", "has no date"},
	{"nqn.2014-00.com.example:x", "has no date"},
	{"nqn.2014.08.com.example:x", "has no date"},
	{"nqn.2014-08com.example:x", "has no date"},
	{"nqn.2014-08.com.example", "has no colon after the domain"},
	{"nqn.2014-08.org.nvmexpress.discovery2", "has no colon after the domain"},
	{"nqn.2014-08.:x", "has no reverse domain name"},
	{"nqn.2014-08.com..example:x", "has no reverse domain name"},
	{"nqn.2014-08.com.:x", "has no reverse domain name"},
	{"nqn.2014-08.com exam:x", "has no reverse domain name"},
	{"nqn.2014-08.com.example:", "has nothing after the colon"},
	{"nqn.2014-08.org.nvmexpress:uuid:1b4e28ba", "has a malformed UUID"},
	{"nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427x",
	 "has a malformed UUID"},
	{"nqn.2014-08.com.example:a\nb", "has a control character"},
	{"nqn.2014-08.com.example:a\x7f", "has a control character"},
	{"nqn.2014-08.com.example:\xff", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xc3", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xc0\xaf", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xe0\x80\xaf", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xed\xa0\x80", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xf4\x90\x80\x80", "is not UTF-8"},
	{"nqn.2014-08.com.example:\xe2\x82", "is not UTF-8"},
};

static void good_names_have_no_problem(void)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		const char *problem = nqn_problem(good[i]);

		EXPECT_STR("", problem != NULL ? problem : "");
	}
}

static void bad_names_are_told_why(void)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *problem = nqn_problem(bad[i].nqn);

		EXPECT_STR(bad[i].problem, problem != NULL ? problem : "no problem");
	}
}

static void length_is_limited_to_223(void)
{
	char nqn[300] = "nqn.2014-08.com.example:";
	size_t start = strlen(nqn);

	memset(nqn + start, 'a', 223 - start);
	EXPECT(nqn_problem(nqn) == NULL);
	nqn[223] = 'a';
	EXPECT(nqn_problem(nqn) != NULL);
	EXPECT_STR("is longer than 223 bytes", nqn_problem(nqn));
}

static void discovery_is_exactly_one_name(void)
{
	EXPECT(nqn_is_discovery("nqn.2014-08.org.nvmexpress.discovery"));
	EXPECT(!nqn_is_discovery("nqn.2014-08.org.nvmexpress.discovery2"));
	EXPECT(!nqn_is_discovery("nqn.2026-11.io.weft:default"));
}

int main(void)
{
	TAP_RUN(good_names_have_no_problem);
	TAP_RUN(bad_names_are_told_why);
	TAP_RUN(length_is_limited_to_223);
	TAP_RUN(discovery_is_exactly_one_name);
	return tap_end();
}
