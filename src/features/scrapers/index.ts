export { batchQueue } from './batch-items.ts'
