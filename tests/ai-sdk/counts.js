/* counts: a reporter of node:test that writes the line tools/run_tests.py reads. */
export default async function* counts(events) {
  for await (const { type, data } of events) {
    if (type !== "test:summary" || data.file !== undefined) continue;
    const { passed, failed, cancelled, skipped } = data.counts;
    yield `ai_sdk: ${passed} passed, ${failed + cancelled} failed, ${skipped} skipped\n`;
  }
}
