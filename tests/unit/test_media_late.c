/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes and starts with media that open late: they open at the same time, a failure refuses the
 * change as a whole, no answer has a deadline, and an answer that comes too late reaches nobody.
 */
#include "late_world.h"

#include "daemon/lost_ns.h"

#include <jansson.h>

static void media_of_one_change_open_at_the_same_time(void)
{
	begin();
	change("{'media':'late:1M'," U1 "},{'media':'mem:2M'},"
	       "{'media':'fault:delay:ms=1@late:3M'," U2 "}");
	EXPECT_EQ(1, result);
	EXPECT_EQ(2, opening_count);
	late_end(1, 0);
	run_ms(100);
	EXPECT_EQ(1, result);
	late_end(0, 0);
	EXPECT_EQ(1, result); /* goes on in a turn of its own */
	run_ms(1);
	EXPECT_EQ(0, result);
	EXPECT_EQ(3, built->subsystems[0]->ns_count);
	EXPECT_EQ(1 << 20, media_at(0)->size_bytes);
	EXPECT_EQ(2 << 20, media_at(1)->size_bytes);
	EXPECT_EQ(3 << 20, media_at(2)->size_bytes);
	commit();
	EXPECT_EQ(2, open_count);
	/* What is open stays open: nothing is late in the next change. */
	change("{'media':'late:1M'," U1 "},{'nsid':3,'media':'fault:delay:ms=1@late:3M'," U2 "}");
	EXPECT_EQ(0, opening_count);
	commit();
	EXPECT_EQ(2, open_count);
	end();
}

static void media_that_open_at_once_do_not_wait(void)
{
	begin();
	change("{'media':'mem:1M'},{'media':'file:%s/prompt,size=1M'}", root);
	EXPECT_EQ(0, result);
	commit();
	end();
}

static void a_late_failure_refuses_the_whole_change(void)
{
	begin();
	change("{'media':'file:%s/whole,size=1M'},{'media':'late:1M'},{'media':'late:2M'}", root);
	EXPECT(file_exists("whole"));
	late_end(0, 0);
	late_end(0, -ECONNREFUSED);
	run_ms(1);
	EXPECT_EQ(-ECONNREFUSED, result);
	EXPECT_EQ(1, errors.count);
	EXPECT(error_has(NQN ", namespace 3 (late:2M): late: no answer"));
	EXPECT_EQ(0, open_count);
	EXPECT(!file_exists("whole"));
	EXPECT_EQ(0, media_registry_count(registry));
	end();
}

static void what_fails_at_once_ends_the_change_at_once(void)
{
	begin();
	change("{'media':'late:1M'},{'media':'file:/nowhere/at/all,size=1M'}");
	EXPECT(result < 0 && result != -EINPROGRESS);
	EXPECT_EQ(1, errors.count);
	EXPECT(error_has("namespace 2 (file:/nowhere/at/all,size=1M)"));
	EXPECT_EQ(0, opening_count);
	end();
}

/* ---- no answer ------------------------------------------------------------------------------ */

static void no_answer_has_a_deadline(void)
{
	begin();
	change("{'media':'mem:1M'}");
	commit();
	change("{'media':'mem:1M'},{'media':'late:1M'},{'media':'late:2M'}");
	late_end(0, 0);
	run_ms(9990);
	EXPECT_EQ(1, result);
	run_ms(20);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT(error_has(NQN ", namespace 3 (late:2M): the medium has not opened within 10 s: "
			     "check that its file or device can be reached, then try again"));
	EXPECT_EQ(0, open_count);
	EXPECT_EQ(0, opening_count); /* cancelled */
	EXPECT_EQ(1, media_registry_count(registry));
	end();
}

/* The driver cannot be cancelled and answers when nobody waits any more. */
static void an_answer_after_the_deadline_reaches_nobody(void)
{
	begin();
	cancel_is_ignored = true;
	change("{'media':'late:1M'," U1 "}");
	run_ms(10010);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT_EQ(1, opening_count);
	late_end(0, 0);
	EXPECT_EQ(0, open_count);
	EXPECT_EQ(0, media_registry_count(registry));
	end();
}

/* The answer of the first opening must not end the second one, which has the same name. */
static void another_of_the_same_name_is_opened_anew(void)
{
	begin();
	cancel_is_ignored = true;
	change("{'media':'late:1M'," U1 "}");
	run_ms(10010);
	change("{'media':'late:1M'," U1 "}");
	EXPECT_EQ(2, opening_count);
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(1, result);
	EXPECT_EQ(0, open_count);
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(0, result);
	EXPECT_EQ(1, open_count);
	commit();
	end();
}

static void a_refused_change_leaves_no_file_behind(void)
{
	begin();
	change("{'media':'fault:late:op=open:ms=60000@file:%s/behind,size=1M'}", root);
	EXPECT_EQ(1, result);
	EXPECT(file_exists("behind"));
	run_ms(10010);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT(!file_exists("behind"));
	change("{'media':'fault:late:ms=5:errno=ENOTCONN@file:%s/behind,size=1M'}", root);
	run_ms(10);
	EXPECT_EQ(-ENOTCONN, result);
	EXPECT(error_has("fault: late: Transport endpoint is not connected"));
	EXPECT(!file_exists("behind"));
	end();
}

/* ---- a stop --------------------------------------------------------------------------------- */

static void a_stop_refuses_the_change_that_waits(void)
{
	begin();
	run_on(control, stop_here); /* without a wait: nothing */
	change("{'media':'late:1M'},{'media':'file:%s/stop,size=1M'}", root);
	run_on(control, stop_here);
	EXPECT_EQ(-ESHUTDOWN, result);
	EXPECT_EQ(0, opening_count);
	EXPECT(!file_exists("stop"));
	end();
	/* The driver has answered in the same turn: it is too late for that. */
	begin();
	change("{'media':'late:1M'}");
	late_end(0, 0);
	run_on(control, stop_here);
	EXPECT_EQ(0, result);
	run_on(control, rollback_here);
	EXPECT_EQ(0, open_count);
	end();
}

/* ---- a change that is taken back ------------------------------------------------------------ */

static void the_former_configuration_comes_back_at_once(void)
{
	struct snapshot *next;
	struct config *former, *broken;

	begin();
	broken = config_of("{'media':'file:/nowhere/at/all,size=1M'," U1 "}");
	change("{'media':'late:1M'," U1 "}");
	late_end(0, 0);
	run_ms(1);
	commit();
	former = config_of("{'media':'late:1M'," U1 "}");
	change("{'nsid':2,'media':'late:2M'," U2 "}");
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(0, result);
	next = built;
	/* What fails on the way back must not end the transaction, which has both media. */
	EXPECT(snapshot_from_config(broken, registry, 2, &built, &errors) < 0);
	EXPECT_EQ(2, open_count);
	EXPECT_EQ(2, media_registry_count(registry));
	EXPECT_EQ(0, snapshot_from_config(former, registry, 2, &built, &errors));
	EXPECT_EQ(1 << 20, media_at(0)->size_bytes);
	snapshot_destroy(next);
	run_on(control, rollback_here);
	EXPECT_EQ(1, open_count);
	EXPECT_EQ(0, opening_count);
	config_free(former);
	config_free(broken);
	end();
}

/* ---- starts and lost media ------------------------------------------------------------------ */

/* The document in the store: the namespaces of a former process. */
static void expect(const char *namespaces)
{
	struct config *config = config_of(namespaces);
	json_t *document = config_to_json(config);

	EXPECT_EQ(0, media_registry_expect(registry, document));
	json_decref(document);
	config_free(config);
}

static void recheck(bool is_recreated)
{
	struct uuid uuid;

	CHECK(uuid_parse("6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31", &uuid) == 0);
	media_registry_retry(registry, &uuid, is_recreated);
}

static int recreate_edit(void)
{
	json_t *ns =
		json_pack("{s:i,s:s}", "nsid", 1, "uuid", "6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31");
	int res;

	errors.count = 0;
	res = lost_ns_edit(registry, ns, LOST_NS_RECREATE, true, &errors);
	json_decref(ns);
	return res;
}

static void a_start_offers_what_does_not_answer_as_lost(void)
{
	struct media_error problem;

	begin();
	expect("{'media':'late:8M'," U1 "},{'media':'late:2M'," U2 "}");
	change("{'media':'late:8M'," U1 "},{'media':'late:2M'," U2 "},{'media':'mem:1M'}");
	late_end(1, 0);
	run_ms(10010);
	EXPECT_EQ(0, result);
	EXPECT(media_is_lost(media_at(0)));
	EXPECT_EQ(8 << 20, media_at(0)->size_bytes);
	EXPECT(media_problem(media_at(0), &problem));
	EXPECT_STR(
		"late:8M has not opened within 10 s: check that its file or device can be reached",
		problem.text);
	EXPECT_EQ(TARGET_ANA_GROUP_LOST, built->subsystems[0]->namespaces[0].ana_group);
	EXPECT_EQ(2 << 20, media_at(1)->size_bytes);
	EXPECT(!media_is_lost(media_at(1)));
	commit();

	/* Another change leaves it lost, without trying. */
	change("{'media':'late:8M'," U1 "},{'media':'late:2M'," U2 "}");
	EXPECT_EQ(0, opening_count);
	commit();

	/* Only a file can be created anew. */
	EXPECT_EQ(-EOPNOTSUPP, recreate_edit());
	EXPECT(error_has("namespace 1 (late:8M) is not a file"));

	/* A recheck waits for it; a failed one leaves it lost. */
	recheck(false);
	change("{'media':'late:8M'," U1 "},{'media':'late:2M'," U2 "}");
	EXPECT_EQ(1, result);
	late_end(0, -ENOTCONN);
	run_ms(1);
	EXPECT_EQ(-ENOTCONN, result);
	recheck(false);
	change("{'media':'late:8M'," U1 "},{'media':'late:2M'," U2 "}");
	late_end(0, 0);
	run_ms(1);
	EXPECT_EQ(0, result);
	EXPECT(!media_is_lost(media_at(0)));
	EXPECT_EQ(1, built->subsystems[0]->namespaces[0].ana_group);
	commit();
	EXPECT_EQ(2, open_count);
	end();
}

/* Its file would be opened as a new one: created or grown. */
static void a_start_offers_a_medium_made_of_files_as_lost(void)
{
	struct media_error problem;
	char both[256];

	begin();
	snprintf(both, sizeof(both),
		 "{'media':'thin:file:%s/under,size=1M'," U1 "},{'media':'thin:mem:1M'," U2 "}",
		 root);
	expect(both);
	change("%s", both);
	EXPECT_EQ(0, result);
	EXPECT(media_is_lost(media_at(0)));
	EXPECT(media_problem(media_at(0), &problem));
	EXPECT(strstr(problem.text, "/under,size=1M: was served before") != NULL);
	EXPECT(!media_is_lost(media_at(1)));
	EXPECT(!file_exists("under"));
	commit();

	/* Removed and added again, the medium is a new one. */
	change("{'nsid':2,'media':'thin:mem:1M'," U2 "}");
	commit();
	change("%s", both);
	EXPECT_EQ(0, result);
	EXPECT(!media_is_lost(media_at(0)));
	EXPECT(file_exists("under"));
	commit();
	end();
}

static void a_start_offers_what_fails_late_as_lost(void)
{
	begin();
	expect("{'media':'late:8M'," U1 "}");
	change("{'media':'late:8M'," U1 "}");
	late_end(0, -ECONNREFUSED);
	run_ms(1);
	EXPECT_EQ(0, result);
	EXPECT(media_is_lost(media_at(0)));
	commit();
	end();
}

/* No host knows a namespace that no former process has served. */
static void a_start_with_a_new_namespace_is_refused(void)
{
	begin();
	expect("{'media':'late:8M'," U1 "}");
	change("{'media':'late:8M'," U1 "},{'media':'late:1M'," U2 "}");
	late_end(0, 0);
	run_ms(10010);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT_EQ(1, errors.count);
	EXPECT(error_has(NQN ", namespace 2 (late:1M): late:1M has not opened within 10 s"));
	EXPECT_EQ(0, open_count);
	end();
}

/* A file is offered as lost by its path. A recreation that does not open puts the old file back. */
static void a_late_file_is_lost_and_recreated(void)
{
	char spec[160];

	snprintf(spec, sizeof(spec), "{'media':'fault:late:ms=20000@file:%s/file,size=1M'," U1 "}",
		 root);
	begin();
	expect(spec);
	change("%s", spec);
	EXPECT_EQ(0, result); /* the inner medium is missing: nothing is late */
	EXPECT(media_is_lost(media_at(0)));
	commit();
	recheck(true);
	change("%s", spec);
	EXPECT_EQ(1, result);
	EXPECT(file_exists("file"));
	run_ms(10010);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT(!file_exists("file"));
	end();
}

int main(void)
{
	if (!root_make())
		return 1;
	world_create();
	TAP_RUN(media_of_one_change_open_at_the_same_time);
	TAP_RUN(media_that_open_at_once_do_not_wait);
	TAP_RUN(a_late_failure_refuses_the_whole_change);
	TAP_RUN(what_fails_at_once_ends_the_change_at_once);
	TAP_RUN(no_answer_has_a_deadline);
	TAP_RUN(an_answer_after_the_deadline_reaches_nobody);
	TAP_RUN(another_of_the_same_name_is_opened_anew);
	TAP_RUN(a_refused_change_leaves_no_file_behind);
	TAP_RUN(a_stop_refuses_the_change_that_waits);
	TAP_RUN(the_former_configuration_comes_back_at_once);
	TAP_RUN(a_start_offers_what_does_not_answer_as_lost);
	TAP_RUN(a_start_offers_a_medium_made_of_files_as_lost);
	TAP_RUN(a_start_offers_what_fails_late_as_lost);
	TAP_RUN(a_start_with_a_new_namespace_is_refused);
	TAP_RUN(a_late_file_is_lost_and_recreated);
	sim_destroy(sim);
	return root_end();
}
