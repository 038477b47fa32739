export { createCatalogService } from './import-catalog.ts'
export { createLiveCatalog, type LiveCatalog } from './live-catalog.ts'
export {
  createOrderable,
  createRequireOrderable,
  type Orderable,
  type Quotes,
  type RequireOrderable,
} from './quotes.ts'
export { productView, quoteView, requireAccepted } from './views.ts'
