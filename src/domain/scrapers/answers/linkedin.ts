import {
  type Answers,
  count,
  flag,
  id,
  isoTime,
  link,
  list,
  media,
  number,
  object,
  picture,
  position,
  type Shape,
  text,
  texts,
  word,
} from './fields.ts'

const personLink = link('Link to the person', 'in/example-person')
const personName = text('Name of the person', 'Example Person')
const personPicture = picture('Picture of the person')
const published = isoTime('When it was published')
const years = object('Years', {
  '@type': word('Kind of the entry', 'OrganizationRole'),
  description: text('What the person did there', 'Development of tools'),
  startDate: number('First year', 2008, 'year'),
  endDate: number('Last year', 2012, 'year'),
})

const ad: Shape = {
  id: id('the advertisement', '664000001'),
  description: text('Text', 'Learn how proxies work'),
  headline: text('Headline', 'The guide to proxies'),
  poster: text('Who shows it', 'Example Software'),
  posterTitle: text('Text below the name', 'Promoted'),
  adType: word('Kind of advertisement', 'Single Image Ad'),
  advertiser: text('Who advertises', 'Example Software'),
  advertiserLinkedinPage: link('Link to the page of the advertiser', 'company/example-software'),
  targeting: object('Whom it aims at, in words', {
    language: text('Language', 'Targeting includes English'),
    location: text('Places', 'Targeting includes Portugal'),
    audience: text('Groups of people', 'Inclusion and exclusion targeting applied'),
    company: text('Companies', 'Exclusion targeting applied'),
  }),
  image: picture('Picture'),
  cta: text('Text of the button', 'Learn more'),
  destinationUrl: link('Where it leads', 'guide'),
  adDuration: word('When it ran, in words', 'Ran from Jan 1, 2026 to Jan 31, 2026'),
  startDate: isoTime('First day'),
  endDate: isoTime('Last day'),
  totalImpressions: word('How often it was seen, as a range', '5k-10k', 'views'),
  impressionsByCountry: list('Views by country', {
    country: word('Name of the country', 'Portugal'),
    impressions: word('Share of the views', '100%', 'percent'),
  }),
}

export const linkedin: Answers = {
  ad,
  'ad-search': {
    ads: list('Advertisements', { ...ad, video: media('Link to the video') }),
    totalAds: count('matches', 8_699),
    isLastPage: flag('Whether this is the last page', false),
    paginationToken: position('640000001-1769860800000'),
  },
  company: {
    id: id('the company', '784000'),
    name: text('Name of the company', 'Example Software'),
    description: text('What the company does', 'Tools for shops'),
    slogan: text('Slogan', 'Shops for everyone'),
    website: link('Link to the website', ''),
    industry: word('Industry', 'Software Development'),
    size: word('Number of employees, as a range', '10,001+ employees'),
    employeeCount: count('employees with an account', 23_591),
    headquarters: text('Where the company is', 'Example City'),
    location: object('Where the company is', {
      city: text('City', 'Example City'),
      state: word('State or province', 'ON'),
      country: word('Country, two letters', 'CA'),
    }),
    founded: number('When the company was founded', 2006, 'year'),
    type: word('Legal form', 'Public Company'),
    logo: picture('Logo'),
    coverImage: picture('Wide picture'),
    specialties: texts('What the company is good at', ['e-commerce']),
    funding: object('Capital', {
      numberOfRounds: count('rounds', 4),
      lastRound: object('The last round', {
        type: word('Kind of round', 'Series C'),
        date: isoTime('When it was'),
        amount: word('Amount in words', 'US$ 100.0M'),
      }),
      investors: list('Investors', {
        name: text('Name of the investor', 'Example Capital'),
        crunchbaseUrl: link('Link to the investor', 'example-capital'),
        image: picture('Logo of the investor'),
      }),
    }),
    employees: list('Some employees', {
      name: personName,
      title: text('Position', 'Developer'),
      link: personLink,
      image: personPicture,
    }),
    posts: list('Latest posts', {
      url: link('Link to the post', 'posts/1'),
      datePublished: published,
      text: text('Text of the post', 'We hire developers'),
    }),
    similarPages: list('Similar companies', {
      link: link('Link to the company', 'company/example-shop'),
      name: text('Name of the company', 'Example Shop'),
      image: picture('Logo of the company'),
    }),
  },
  'company-posts': {
    posts: list('Posts, the newest first', {
      id: id('the post'),
      url: link('Link to the post', 'posts/1'),
      datePublished: published,
      text: text('Text of the post', 'We hire developers'),
    }),
  },
  post: {
    url: link('Link to the post', 'posts/1'),
    name: text('Title', 'What I learned about proxies'),
    headline: text('First words', 'It took me a year'),
    description: text('Text', 'It took me a year to understand proxies'),
    datePublished: published,
    likeCount: count('likes', 210),
    commentCount: count('comments', 17),
    author: object('Who wrote it', {
      name: personName,
      url: personLink,
      followers: count('followers', 30_863),
    }),
    comments: list('Comments that are shown', {
      author: personName,
      text: text('Text of the comment', 'Thanks for sharing'),
      linkedinUrl: personLink,
    }),
    moreArticles: list('More of the author', {
      link: link('Link to the article', 'pulse/example'),
      title: text('Title', 'Proxies for beginners'),
      description: text('First words', 'A proxy forwards requests'),
      datePublished: word('When it was published', 'Jan 31, 2026', 'date in words'),
      reactionCount: count('reactions', 168),
      commentCount: count('comments', 15),
    }),
  },
  profile: {
    name: personName,
    image: personPicture,
    location: text('Where the person lives', 'Example City'),
    followers: count('followers', 64_803),
    connections: word('Number of connections, rounded', '500+'),
    about: text('What the person writes about themselves', 'I build tools'),
    experience: list('Positions', {
      '@type': word('Kind of the entry', 'Organization'),
      name: text('Name of the company', 'Example Software'),
      url: link('Link to the company', 'company/example-software'),
      location: text('Where it was', 'Example City'),
      member: years,
    }),
    education: list('Schools', {
      '@type': word('Kind of the entry', 'EducationalOrganization'),
      name: text('Name of the school', 'Example University'),
      url: link('Link to the school', 'school/example-university'),
      member: years,
    }),
    articles: list('Articles', {
      headline: text('Title', 'Proxies for beginners'),
      author: personName,
      datePublished: published,
      image: picture('Picture of the article'),
      articleBody: text('Text', 'A proxy forwards requests'),
    }),
    activity: list('Posts that the person wrote, shared or liked', {
      title: text('First words of the post', 'A new tool'),
      activityType: text('What the person did', 'Shared by Example Person'),
      link: link('Link to the post', 'posts/1'),
      image: picture('Picture of the post'),
    }),
    publications: list('Publications', {
      name: text('Title', 'How proxies work'),
      url: link('Link to the publication', 'publication'),
    }),
    projects: list('Projects', {
      name: text('Name of the project', 'Example Conference'),
      url: link('Link to the project', 'project'),
      dateRange: word('When it was', '2015', 'years'),
      description: text('What it was', 'A conference about proxies'),
    }),
    recommendations: list('What others write about the person', {
      name: text('Who wrote it', 'Another P.'),
      link: personLink,
      image: personPicture,
      text: text('Text', 'I liked to work with Example'),
    }),
    similarProfiles: list('Similar people', {
      name: text('Name of the person', 'Another Person'),
      link: personLink,
      image: personPicture,
    }),
  },
}
