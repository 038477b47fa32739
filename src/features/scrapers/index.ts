export { adoptScrapeBatches, batchQueue } from './batch-items.ts'
export { scraperHealth } from './provider-health.ts'
