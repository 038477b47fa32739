import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { readStoppedModels, tablesExist } from '../../src/platform/projections/checkpoint.ts'
import type { ReadModel } from '../../src/platform/projections/read-model.ts'
import type { OwnApp } from './test-app.ts'
import { until } from './until.ts'

const stoppedNames = async ({ core }: OwnApp): Promise<readonly string[]> =>
  (await readStoppedModels(core.pool)).map(({ model }) => model)

/** The model throws on every event until the returned function is called. */
export const breakModel = (model: ReadModel): (() => void) => {
  const { apply } = model
  const changeable = model as { apply: ReadModel['apply'] }
  changeable.apply = () => {
    throw new Error('a field is missing')
  }
  return () => {
    changeable.apply = apply
  }
}

/**
 * Stops a model of the running service by an event that it cannot apply. Afterwards the model is repaired, and an
 * operator rebuilds it.
 */
export const withStoppedModel = async (
  t: TestContext,
  app: OwnApp,
  model: ReadModel,
  whileStopped: () => Promise<void>,
): Promise<void> => {
  const restore = breakModel(model)
  t.after(restore)
  await app.credit(app.demo.buyer.accountId, 100_00)
  // The tests' role is a superuser, who can read the tables until they are dropped.
  await until(
    async () =>
      (await stoppedNames(app)).includes(model.name) &&
      !(
        await tablesExist(
          app.core.pool,
          model.tables.map(({ name }) => name),
        )
      ).includes(true),
    { what: `${model.name} to stop` },
  )
  await whileStopped()
  restore()
  await app.run('projections', 'rebuild', model.name)
  assert.deepEqual(await stoppedNames(app), [])
}
