/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a spec: what is accepted, and that every refusal names the mistake.
 * One thread, opens nothing.
 */
#include "media/media.h"
#include "media/spec.h"
#include "tap.h"
#include "volume/fault.h"

#include <errno.h>

static void accepts(const char *text)
{
	struct media_error error = {""};

	if (media_check_spec(text, &error) != 0) {
		printf("# %s: refused: %s\n", text, error.text);
		tap_case_failed = true;
	}
}

/* Expects -EINVAL and an error text that contains `says`. */
static void refuses(const char *text, const char *says)
{
	struct media_error error = {""};
	int res = media_check_spec(text, &error);

	if (res != -EINVAL || !strstr(error.text, says)) {
		printf("# %s: result %d, text \"%s\", expected \"%s\"\n", text, res, error.text,
		       says);
		tap_case_failed = true;
	}
}

static void good_specs_are_accepted(void)
{
	accepts("file:/tmp/a");
	accepts("file:a,size=10G");
	accepts("file:/dev/nvme0n1,block=4096,readonly");
	accepts("file:a,size=512,block=512");
	accepts("file:a:b@c,readonly");
	accepts("mem:64M");
	accepts("mem:1G,block=512,huge");
	accepts("null:1T");
	accepts("null:512,block=512");
	accepts("fault:fail:op=write:after=10:count=1:errno=ENOSPC+delay:op=read:ms=20:every=100@"
		"mem:64M");
	accepts("fault:fail:prob=10:seed=7@file:/tmp/a,size=1M");
	accepts("fault:tear+corrupt+lose@null:1M");
	accepts("fault:split:ms=1@mem:1M");
	accepts("fault:split:op=read:ms=1+split:op=write:ms=2@mem:1M");
	accepts("fault:fail@fault:lose@fault:tear@mem:1M");
	accepts("fault:late:ms=300+late:op=open:ms=1:errno=EIO@mem:1M");
}

static void unknown_kinds_list_the_known(void)
{
	refuses("", "file:PATH");
	refuses("mem", "names no kind");
	refuses("disk:/dev/sda", "known: file, mem, null, fault");
	refuses("/tmp/a:b", "unknown kind of medium \"/tmp/a\"");
	refuses("mem2:1M", "unknown kind of medium \"mem2\"");
	refuses("me:1M", "unknown kind of medium \"me\"");
	refuses(":1M", "unknown kind");
}

static void bad_sizes_are_named(void)
{
	refuses("mem:", "is not a size");
	refuses("mem:12Q", "\"12Q\" is not a size");
	refuses("mem:-1", "is not a size");
	refuses("mem:0", "out of range");
	refuses("null:10000", "not a multiple of the block size 4096");
	refuses("mem:4100,block=512", "not a multiple of the block size 512");
	refuses("file:a,size=", "is not a size");
	refuses("file:a,size=100", "not a multiple");
	refuses("file:a,size=1M,size=2M", "size= is given twice");
	refuses("mem:9223372036854775808", "out of range");
}

static void bad_blocks_are_named(void)
{
	refuses("mem:1M,block=1024", "block=1024: a block has 512 or 4096 bytes");
	refuses("null:1M,block=", "a block has 512 or 4096 bytes");
	refuses("file:a,block=x", "block=x");
	refuses("mem:1M,block=512,block=512", "block= is given twice");
}

static void unknown_options_are_named(void)
{
	refuses("file:a,huge", "unknown option \"huge\"; known here: size=, block=, readonly");
	refuses("mem:1M,size=2M", "unknown option \"size=2M\"; known here: block=, huge");
	refuses("mem:1M,readonly", "unknown option \"readonly\"");
	refuses("null:1M,huge", "unknown option \"huge\"; known here: block=");
	refuses("file:a,", "unknown option \"\"");
	refuses("file:", "needs a path");
	refuses("file:,size=1M", "needs a path");
}

static void bad_fault_rules_are_named(void)
{
	refuses("fault:fail", "needs the medium it wraps");
	refuses("fault:@mem:1M", "unknown rule \"\"");
	refuses("fault:explode@mem:1M", "unknown rule \"explode\"");
	refuses("fault:fail+@mem:1M", "unknown rule \"\"");
	refuses("fault:fail:op=erase@mem:1M", "op=erase");
	refuses("fault:fail:errno=EPERHAPS@mem:1M", "errno=EPERHAPS");
	refuses("fault:fail:after=x@mem:1M", "after=x");
	refuses("fault:fail:count=0@mem:1M", "count=0");
	refuses("fault:fail:every=0@mem:1M", "every=0");
	refuses("fault:fail:prob=101@mem:1M", "prob=101");
	refuses("fault:fail:now@mem:1M", "\"now\" is not OPTION=VALUE");
	refuses("fault:fail:when=1@mem:1M", "unknown option \"when\"");
	refuses("fault:delay@mem:1M", "delay needs ms=");
	refuses("fault:split@mem:1M", "split needs ms=");
	refuses("fault:split:op=flush:ms=1@mem:1M", "split does not support this op=");
	refuses("fault:split:ms=1:errno=EIO@mem:1M", "errno= is for fail and tear");
	refuses("fault:fail:ms=3@mem:1M", "ms= is for delay");
	refuses("fault:lose:errno=EIO@mem:1M", "errno= is for fail and tear");
	refuses("fault:tear:op=read@mem:1M", "tear does not support this op=");
	refuses("fault:corrupt:op=any@mem:1M", "corrupt does not support this op=");
	refuses("fault:lose:op=read@mem:1M", "lose does not support this op=");
	refuses("fault:late@mem:1M", "late needs ms=");
	refuses("fault:late:op=read:ms=1@mem:1M", "late does not support this op=");
	refuses("fault:delay:op=open:ms=1@mem:1M", "delay does not support this op=");
	refuses("fault:late:ms=1:count=1@mem:1M", "late takes only op=open, ms= and errno=");
	refuses("fault:late:ms=1:after=1@mem:1M", "late takes only op=open, ms= and errno=");
	refuses("fault:fail@mem:x", "\"x\" is not a size");
	refuses("fault:fail@fault:fail@fault:fail@fault:fail@mem:1M", "nested in each other");
}

static void parsed_values_are_right(void)
{
	struct media_spec spec;
	struct media_error error;
	const struct fault_rules *rules;
	const struct fault_rule_text *rule;

	EXPECT_EQ(0, media_spec_parse("file:/tmp/x,size=3M,block=512,readonly", &spec, &error));
	EXPECT_EQ(MEDIA_SPEC_FILE, spec.kind);
	EXPECT_STR("/tmp/x", spec.path);
	EXPECT_EQ(3 << 20, spec.size_bytes);
	EXPECT_EQ(512, spec.block_bytes);
	EXPECT(spec.is_read_only);
	EXPECT(!spec.wants_huge_pages);
	media_spec_free(&spec);

	EXPECT_EQ(0, media_spec_parse("fault:fail:op=write:after=10:count=1:errno=ENOSPC+"
				      "delay:op=read:ms=20:every=100:prob=5:seed=9@mem:64M,huge",
				      &spec, &error));
	rules = spec.own;
	EXPECT_EQ(2, rules->count);
	rule = &rules->rules[0];
	EXPECT_EQ(FAULT_FAIL, rule->action);
	EXPECT_EQ(1u << MEDIA_WRITE, rule->kinds);
	EXPECT_EQ(10, rule->after);
	EXPECT_EQ(1, rule->count);
	EXPECT_EQ(-ENOSPC, rule->error);
	rule = &rules->rules[1];
	EXPECT_EQ(FAULT_DELAY, rule->action);
	EXPECT_EQ(1u << MEDIA_READ, rule->kinds);
	EXPECT_EQ(20, rule->delay_ms);
	EXPECT_EQ(100, rule->every);
	EXPECT_EQ(5, rule->prob_percent);
	EXPECT_EQ(9, rule->seed);
	EXPECT_EQ(MEDIA_SPEC_MEM, spec.children[0].kind);
	EXPECT_STR("mem:64M,huge", spec.children[0].text);
	EXPECT(spec.children[0].wants_huge_pages);
	media_spec_free(&spec);
}

static void long_texts_are_cut_not_overrun(void)
{
	char text[2000] = "file:a,";
	struct media_error error;

	memset(text + 7, 'x', sizeof(text) - 8);
	text[sizeof(text) - 1] = '\0';
	EXPECT_EQ(-EINVAL, media_check_spec(text, &error));
	EXPECT(strlen(error.text) < sizeof(error.text));
	EXPECT(strstr(error.text, "known here") != NULL);
	EXPECT_EQ(-EINVAL, media_check_spec("nothing:1", NULL));
}

int main(void)
{
	TAP_RUN(good_specs_are_accepted);
	TAP_RUN(unknown_kinds_list_the_known);
	TAP_RUN(bad_sizes_are_named);
	TAP_RUN(bad_blocks_are_named);
	TAP_RUN(unknown_options_are_named);
	TAP_RUN(bad_fault_rules_are_named);
	TAP_RUN(parsed_values_are_right);
	TAP_RUN(long_texts_are_cut_not_overrun);
	return tap_end();
}
