import {
  byCursor,
  byPage,
  countries,
  cursor,
  day,
  link,
  page,
  type ScraperRow,
  scraper,
  text,
} from '../scraper.ts'

const hosts = ['linkedin.com']

/** Scrapers of linkedin. */
export const linkedin: readonly ScraperRow[] = [
  scraper('linkedin', 'profile', {
    price: '0.0050',
    summary: "A person's public profile",
    inputs: [link('profile', hosts, 'https://www.linkedin.com/in/example-person', { required: true })],
    answer: 'What is shown to visitors without an account: name, career, education, activity',
    fields:
      'name image location followers:number connections about experience:object[] education:object[] articles:object[] activity:object[] publications:object[] recommendations:object[] similarProfiles:object[]',
    items: ['experience', 'url name @type location member:object'],
    path: '/v1/linkedin/profile',
  }),
  scraper('linkedin', 'company', {
    price: '0.0050',
    summary: "A company's page",
    inputs: [link('company page', hosts, 'https://www.linkedin.com/company/shopify', { required: true })],
    answer: 'What the company does, its size, industry, funding, some of its people and latest posts',
    fields:
      'id name description website industry size employeeCount:number headquarters founded:number type specialties:string[] funding:object employees:object[] posts:object[]',
    items: ['employees', 'title name link image'],
    path: '/v1/linkedin/company',
  }),
  scraper('linkedin', 'company-posts', {
    price: '0.0050',
    summary: "Posts of a company's page",
    note: 'The platform shows 7 pages',
    inputs: [
      link('company page', hosts, 'https://www.linkedin.com/company/shopify', { required: true }),
      page(7),
    ],
    paging: byPage(),
    answer: 'Posts with link, date and text',
    fields: 'posts:object[]',
    items: ['posts', 'id url text datePublished'],
    path: '/v1/linkedin/company/posts',
  }),
  scraper('linkedin', 'post', {
    price: '0.0050',
    summary: 'A single post or article',
    inputs: [
      link(
        'post or article',
        hosts,
        'https://www.linkedin.com/pulse/being-father-has-made-me-better-leader-vice-versa-austen-allred/',
        { required: true },
      ),
    ],
    answer: 'Text, author, counts, and the comments that are shown',
    fields:
      'url name headline description datePublished likeCount:number commentCount:number author:object comments:object[] moreArticles:object[]',
    items: ['comments', 'text author linkedinUrl'],
    path: '/v1/linkedin/post',
  }),
  scraper('linkedin', 'ad-search', {
    price: '0.0050',
    summary: 'Advertisements that match a company or some words',
    inputs: [
      text('company', 'Name of the company', 'microsoft'),
      text('keyword', 'A word of the advertisement', 'analytics'),
      text('company_id', 'Number of the company', '1035', { sentAs: 'companyId' }),
      countries('countries', 'Countries, two letters each, with commas between', 'US,CA'),
      day('start_date', 'The first day', { sentAs: 'startDate' }),
      day('end_date', 'The last day', { sentAs: 'endDate' }),
      cursor('640547184-1743616612000', { sentAs: 'paginationToken' }),
    ],
    oneOf: [['company', 'keyword', 'company_id']],
    paging: byCursor('!isLastPage', { send: 'paginationToken' }),
    answer: 'Advertisements with what they show, who pays and how often they were seen',
    fields: 'ads:object[] totalAds:number isLastPage:boolean paginationToken',
    items: ['ads', 'id description adType advertiser totalImpressions impressionsByCountry:array'],
    path: '/v1/linkedin/ads/search',
  }),
  scraper('linkedin', 'ad', {
    price: '0.0050',
    summary: 'A single advertisement of the public library',
    inputs: [
      link('advertisement in the library', hosts, 'https://www.linkedin.com/ad-library/detail/666281156', {
        required: true,
      }),
    ],
    answer: 'What it shows, whom it aims at, when it ran, and views by country',
    fields:
      'id headline description adType advertiser advertiserLinkedinPage targeting:object image destinationUrl startDate endDate totalImpressions impressionsByCountry:object[]',
    items: ['impressionsByCountry', 'country impressions'],
    path: '/v1/linkedin/ad',
  }),
]
